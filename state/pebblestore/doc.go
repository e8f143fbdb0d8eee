// Package pebblestore is the state.Database on disk: one Pebble database for each task. It is the
// only package that imports Pebble.
//
// # Contract
//
// The write-ahead log is off: the changelog topics are the log. A crash loses the batches that were
// not flushed. These are whole batches and always the latest, so the database reopens exactly at
// the positions that it reports. Flush and Close make everything durable. Between them, a
// background flush bounds what a restart has to replay (Options).
//
// # The way down
//
//	Apply ──► buffer ──► Pebble: memtable ──► tables        Load ──► table
//
// A round goes into a buffer above Pebble: a hash table with the last write of each key (type
// committed). The buffer goes into Pebble as one batch of several rounds when FlushBytes are
// waiting, after FlushInterval, and before an operation that reads more than one key. Databases of
// one process take turns to flush in the background, unless one is in a hurry (takeTurn). Rounds
// for which the buffer is a detour go into Pebble directly. Apply waits when the disk does not keep
// up, when L0 is too deep, and when the memory budget of the process (type Shared) is used up.
//
// # Lookups
//
// A Get asks, in this order, until one of them has the answer:
//
//	filter ──► rows ──► buffer ──► Pebble: memtables, levels
//
// A store whose lookups mostly find nothing, such as a store of ids, gets a filter of all its keys
// (type keyFilter). A store whose lookups find something keeps the rows that were looked up last
// (type rows). Each takes a fraction of a microsecond. A lookup in Pebble takes a few, part of it
// for each level. Both are built again each time the database opens. A filter that grows too large
// is dropped, and so are rows without hits.
//
// KeyRows reads all rows of a key, in stores of sessions and series. Such a store has a filter of
// keys without suffix. The rows of a key are kept together, as one row of type rows; see
// groupRows. Without them each read is a scan, which costs several lookups in Pebble.
//
// # Memory
//
// The budget of type Shared bounds the memory of the databases of a process. The memory of the
// process is that and the rest of the program: boundMemory controls the allocators. On Linux with
// cgo it bounds the arenas of glibc for the whole process, unless MALLOC_ARENA_MAX is set, or
// arena_max in GLIBC_TUNABLES. Without cgo it lowers GOGC while a Shared is open, by the size of
// the budget in use.
//
// # Stores in memory
//
// Options.InMemory names stores whose rows are in memory. The database then has two parts (type
// split): one on the disk, and one over a file system in memory. Apply, Load and Remove make each
// step in both. The part on the disk has neither rows nor positions of the stores in memory. The
// files of the other part are counted to the budget, and nothing bounds them.
//
// # Layout
//
// All stores of a task share one key space, each behind its 4-byte id. The positions are a key in
// every batch, and so in every table that a flush writes. A Load adds a table with its positions.
// So no crash can separate the positions from the data that they describe. FORMAT.md in package
// state has every byte.
//
// # Failure
//
// The first I/O error in the background, and every sign of damage, stops the database for good. All
// later calls return an error that wraps state.ErrFailed or state.ErrCorrupt, and nothing more is
// written to the disk or removed from it. The owner closes it and opens it again, which finds a
// valid prefix, or removes the directory and restores.
//
// Pebble itself ends the process on some errors, and retries others without end. Neither fits a
// process with many tasks. Type fault prevents both; its comment says how and why it is safe.
//
// A full disk has an error class of its own, state.ErrFull, with the free space. CheckSpace tells
// when the database can be opened again.
//
// An error of a read alone (state unclear, nothing damaged) is returned and stops nothing.
//
// # Concurrency
//
// As state.Database demands: any number of goroutines, batches one after the other. Each database
// owns one goroutine, the flusher, from Open to Close. It owns one more while Load hands its table
// to Pebble, and one for each filter that is being built. Pebble has a few of its own. A Get waits
// while a round is put into the buffer, some milliseconds for a round of 20,000 writes; reads of
// the task itself find those rows in its layers. Close does not wait for open views and scans, nor
// for a checkpoint that copies tables. It ends them with state.ErrClosed.
package pebblestore
