//go:build cgo

package pebblestore

// #include <stdlib.h>
import "C"

import "unsafe"

// newSegment returns memory for rows, with anything in it, until freeSegment is called. With cgo Pebble takes blocks from C's allocator, which
// keeps most of what is given back: rows that were Go's would be beside that, and with them what Go's heap may grow by on their account.
func newSegment() []byte { return unsafe.Slice((*byte)(C.malloc(segmentBytes)), segmentBytes) }

func freeSegment(data []byte) { C.free(unsafe.Pointer(unsafe.SliceData(data))) }
