//go:build cgo && !linux

package pebblestore

// boundMemory has nothing to do where C's allocator has no arenas to bound.
func boundMemory(func() int64) (end func()) { return func() {} }
