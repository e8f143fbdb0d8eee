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
// # Layout
//
// All stores of a task share one key space, each behind its 4-byte id. The positions are a key in every
// batch, hence in every table that a flush writes, and in every table that Load writes: no crash can separate
// them from the data that they describe. FORMAT.md in package state has every byte.
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
// An error that only a read saw (state unclear, nothing damaged) is returned and stops nothing.
//
// # Concurrency
//
// As state.Database demands: any number of goroutines, batches one after the other. Each database owns one
// goroutine, the flusher, from Open to Close; Pebble has a few more of its own. Close does not wait for open
// views and scans of others; it ends them with state.ErrClosed.
package pebblestore
