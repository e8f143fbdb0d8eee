//go:build onceward_broken_dedupe

package demo

import "fmt"

// messageID is broken on purpose: every delivery gets an id of its own, so that nothing is ever a
// duplicate. The drill has to notice.
func messageID(r event) (string, error) {
	_, _, offset := r.Source()
	return fmt.Sprintf("%s of delivery %d", r.Value.MessageID, offset), nil
}
