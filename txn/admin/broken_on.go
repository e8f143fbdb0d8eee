//go:build onceward_failpoints

package admin

import "github.com/onceward/onceward/txn/internal/failpoint"

// brokenMarks has the marks written in a transaction of their own if that mechanism is broken:
// behind that of the records, or before it.
func brokenMarks(s failpoint.Set, all written) []written {
	records, marks := written{records: all.records}, written{marks: all.marks}
	switch {
	case s.Broken(failpoint.MarksLate):
		return []written{records, marks}
	case s.Broken(failpoint.MarksEarly):
		return []written{marks, records}
	}
	return []written{all}
}
