package topology

import "github.com/onceward/onceward/topology/graph"

// DelayedFrom returns the offset at which the record of a delayed retry topic was read first, in the source's
// partition of the same number, of the record's headers. ok is false if they are not those of such a record.
func DelayedFrom(headers []Header) (offset int64, ok bool) {
	in := graph.Input{Headers: headers}
	if restoreDelayed(&in) != nil {
		return 0, false
	}
	return in.Offset, true
}
