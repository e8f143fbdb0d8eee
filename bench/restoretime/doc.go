// Package restoretime measures how fast the runtime brings state back from its changelogs, beside Kafka
// Streams, which restores the same topics in the same run. It is the library behind the tool in the
// directory run.
//
// # Workload
//
// An application with one input topic and two key-value stores. Each input record puts its key and
// value into both stores. [Data] says how many changelog records that makes, how large they are,
// and how many of them are updates of a key that was written before. The input is made from a seed:
// the same settings give the same records.
//
// The application itself fills the changelogs, in its own transactions, so that they are what a
// restore meets in real life. The topics are created beforehand without compression, and with a
// compaction lag of a day, so that the broker leaves every record where it is.
//
// # One set of changelogs for both
//
// Onceward names changelogs as Kafka Streams does, and the record of a key-value store is the same
// in both: key and value as they are. So both candidates are the same application: one application
// id, one consumer group, one set of changelogs, and the same committed offsets. A candidate that
// starts with an empty state directory has to restore everything. The group has to be empty before
// each start, and no record is processed or committed.
//
// # What is measured
//
// Each restore is a process of its own. The rate is the number of changelog records by the time
// from the first begin of a restore to the last end of one:
//
//   - Kafka Streams: from its first StateRestoreListener.onRestoreStart to its last onRestoreEnd.
//     Its stores are open before that.
//   - Onceward: from the first sign of a restore in [txn.App.Status], dated back to the previous
//     look, until a look finds every task running. Opening the tasks after the restore is in there.
//
// Beside it: the time from the start of the process until everything runs, the peak of its resident
// memory (VmHWM of Linux) at that moment, and its processor time up to its end.
//
// # The run
//
// [Measure] first fills the changelogs, and reads them again: what is in them has to be what was
// generated. Then each candidate restores once with its contents read back, which have to be those
// of the changelogs, entry by entry; this is the warm-up too. Then it looks for the fastest
// settings of Kafka Streams, with much heap, and for the smallest heap that costs them less than
// five percent. In the end the candidates take turns: Onceward, Kafka Streams with much heap, and
// Kafka Streams with the smallest. Speed is compared with the former and memory with the latter. A
// restore of another number of records than were written fails the measurement.
//
// # What it is not
//
// It does not show a restore from disks that have to be read: the broker has the changelogs in its
// page cache. Broker and candidates share a machine, so the broker's processor time is part of
// every figure, of both in the same way.
//
// # Concurrency
//
// Measure belongs to one goroutine. The processes that it starts end with it, and with its context.
package restoretime
