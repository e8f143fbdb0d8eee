// Package dispatch knows the tasks of a membership and gives each fetched record to the task that
// reads its partition.
//
// # Contract
//
// A [Dispatcher] is the only owner of three things:
//
//   - which partition leads to which task ([Dispatcher.Dispatch]). A partition without an open task
//     leads nowhere: its records are dropped, and the next owner, or the next membership, reads
//     them again from the committed offset;
//   - why a partition is not fetched: its queue is full, its task is not open yet, waits for the
//     next attempt of a record, or is stopped;
//   - how much may be fetched and not committed, however many partitions there are.
//
// A task goes through the table in this order:
//
//	Assigned, Enter   its partitions are paused, and it has an entry
//	Restoring         its database is open, and is not at the last commit yet
//	Adopt             it has a worker, and its partitions lead to it
//	Ready             its partitions are fetched
//	Stop              it does no work, its partitions are paused, and its entry stays
//	Remove, Revoked   it is gone, and nothing pauses its partitions
//
// An [Entry] is one of these passages. A task that is given up and assigned again has another
// entry, so whatever still works on the old one finds that out by comparison, and changes nothing
// of the new one.
//
// # Concurrency
//
// Dispatch belongs to the goroutine that polls; every other method may be called from any
// goroutine. None blocks: one lock guards the table, one the reasons of pauses, in this order, and
// neither is held over I/O.
//
// # What it is not
//
// It does not open, close or end a task, and does not decide what follows when one stops (package
// session).
package dispatch
