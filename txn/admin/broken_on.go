//go:build onceward_broken

package admin

import "os"

// broken names the one mechanism that does not work. It only exists with the build tag.
var broken = os.Getenv("ONCEWARD_BROKEN")

// brokenMarks has the marks written in a transaction of their own: behind that of the records if ONCEWARD_BROKEN is "marks-late", and
// before it if it is "marks-early".
func brokenMarks(all written) []written {
	records, marks := written{records: all.records}, written{marks: all.marks}
	switch broken {
	case "marks-late":
		return []written{records, marks}
	case "marks-early":
		return []written{marks, records}
	}
	return []written{all}
}
