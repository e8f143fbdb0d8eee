//go:build cgo && linux

package pebblestore

/*
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

// With cgo Pebble takes blocks and memtables from C's allocator, and glibc gives threads arenas of their own, up to eight for each processor.
// Blocks are taken by one thread and given back by another, and what is free in one arena is of no use in the next: with a cache of 256 MiB
// a process came to 903 MiB, with one arena to 355. The bound is for all C code of the process, and has to be set before the first thread has
// an arena, hence before main. Whoever sets MALLOC_ARENA_MAX, or arena_max in GLIBC_TUNABLES, is not overruled.
__attribute__((constructor)) static void onceward_one_arena(void) {
#ifdef __GLIBC__
	const char *tunables = getenv("GLIBC_TUNABLES");
	if (getenv("MALLOC_ARENA_MAX") == NULL && (tunables == NULL || strstr(tunables, "arena_max") == NULL)) {
		mallopt(M_ARENA_MAX, 1);
	}
#endif
}
*/
import "C"

// boundMemory keeps the memory of the process near its budget: here, the constructor above has done it.
func boundMemory(func() int64) (end func()) { return func() {} }
