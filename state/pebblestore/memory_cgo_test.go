//go:build cgo

package pebblestore

// allocatorBeside is what the allocator of this build takes beside a full budget, with the test's own memory.
const allocatorBeside = 85 << 20
