//go:build cgo

package pebblestore

// #include <stdlib.h>
import "C"

import "unsafe"

// newSegment returns memory for rows, with any content, until freeSegment is called. With cgo
// Pebble takes blocks from C's allocator, which keeps most of the freed memory. Go memory for rows
// would come in addition, and Go's heap would grow with it.
func newSegment() []byte { return unsafe.Slice((*byte)(C.malloc(segmentBytes)), segmentBytes) }

func freeSegment(data []byte) { C.free(unsafe.Pointer(unsafe.SliceData(data))) }
