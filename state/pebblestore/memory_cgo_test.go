//go:build cgo

package pebblestore

const (
	// measuredMemory is what the process holds at the end, without free memory of Go's heap. C's
	// allocator keeps what is free in each arena. The peak would depend on how fast the garbage
	// collector is, and so on the load of the machine.
	measuredMemory = "VmRSS:"
	// allocatorBeside is what this allocator takes beside a full budget, with the test's own
	// memory. Five runs took 30 to 43 MiB with one arena, and 70 to 104 MiB with eight.
	allocatorBeside = 57 << 20
)
