//go:build !cgo

package pebblestore

// newSegment returns memory for rows until freeSegment is called: from Go's heap, where Pebble
// takes blocks from without cgo too.
func newSegment() []byte { return make([]byte, segmentBytes) }

func freeSegment([]byte) {}
