// Package pebblestore is the state.Database on disk: one Pebble database for each task. It is the only
// package that imports Pebble.
//
// # Contract
//
// The write-ahead log is off: the changelog topics are the log. A crash loses the batches that were not
// flushed, whole ones and always the latest, so that the database reopens exactly at the positions that it
// reports. Flush and Close make everything durable; in between a background flush bounds what a restart has
// to replay (Options).
//
// # The way down
//
//	Apply ──► buffer ──► Pebble: memtable ──► tables        Load ──► table
//
// A round goes into a buffer above Pebble, a hash table with the last write of each key (type committed), and
// from there with its neighbours into Pebble as one batch: when FlushBytes are waiting, after FlushInterval,
// and whenever something has to see more than one key. Databases of one process take turns to flush in the background, unless one is in
// a hurry (takeTurn). Rounds for which that is a detour go into Pebble
// directly. Apply holds back when the disk does not keep up, when L0 is too deep, and when the memory budget of
// the process (type Shared) is used up.
//
// # Lookups
//
// A Get asks, in this order, until one of them knows:
//
//	filter ──► rows ──► buffer ──► Pebble: memtables, levels
//
// A store whose lookups mostly find nothing, as those of ids do, gets a filter of all its keys (type keyFilter) as soon as that shows; one whose lookups
// find something keeps the rows that were looked up last (type rows). Each takes a fraction of a microsecond, where a lookup in Pebble takes
// some, for each level a little. Both are made anew in each life of a database; a filter is given up when it grows too large, and rows rest
// where they are in vain.
//
// # Memory
//
// What the databases of a process take is bounded by the budget of type Shared, and the process's memory by that and what is beside it in
// the program: boundMemory sees to the allocators. On Linux with cgo it bounds the arenas of glibc for the whole process, unless
// MALLOC_ARENA_MAX is set, or arena_max in GLIBC_TUNABLES; without cgo it lowers GOGC while a Shared is open, by what is in the budget.
//
// # Layout
//
// All stores of a task share one key space, each behind its 4-byte id. The positions are a key in every batch,
// hence in every table that a flush writes, and in a table of their own that goes in with that of a Load: no crash
// can separate them from the data that they describe. FORMAT.md in package state has every byte.
//
// # Failure
//
// The first I/O error in the background, and every sign of damage, stops the database for good: all later
// calls return an error that wraps state.ErrFailed or state.ErrCorrupt, and nothing more is written to the
// disk or removed from it. The owner closes it and opens it again, which finds a valid prefix, or removes the
// directory and restores.
//
// Pebble itself treats some errors as the end of the process and retries others for ever. Neither fits a
// process with many tasks. Type fault is the remedy; its comment says how and why it is safe.
//
// A full disk is such an error with a class of its own, state.ErrFull, that says how much is free. CheckSpace
// tells when opening the database again is worth it.
//
// An error that only a read saw (state unclear, nothing damaged) is returned and stops nothing.
//
// # Concurrency
//
// As state.Database demands: any number of goroutines, batches one after the other. Each database owns one
// goroutine, the flusher, from Open to Close, one more while Load hands its table to Pebble, and one for each filter that is being made; Pebble has a
// few more of its own. A Get waits while a round is put into the buffer, some milliseconds for a round of 20,000
// writes; a task's own reads find those in its layers. Close does not wait for open views and scans of others, nor
// for a checkpoint that copies tables; it ends them with state.ErrClosed.
package pebblestore
