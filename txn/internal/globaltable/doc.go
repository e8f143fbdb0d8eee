// Package globaltable keeps the global tables of a process: every partition of a topic as rows of
// one store.
//
// # Contract
//
// [Start] begins to read, [Tables.Wait] returns when each table serves: it has reached the ends
// that its topic had at that time, and [Tables.Close] ends everything. Between them a table follows
// its topic. [Tables.Rows] is what graphs read, [Tables.View] what queries read.
//
// # A table's life
//
//	describe ─► judge ─► open ─► read to the ends ─► serve ─► follow
//	   ▲                  (in place, or beside the rows that serve)  │
//	   └──────── the topic has changed, or cannot be read ───────────┘
//
//	tables.go     all tables of the process
//	table.go      the life of one table
//	judge.go      why rows on the disk cannot be gone on with
//	reading.go    reads partitions into a database
//	watch.go      what the cluster says of the topic
//	rows.go       what graphs and queries read
//	status.go     what the process tells of a table
//
// # Invariants
//
//   - Rows and positions change in one batch ([state.Database.Apply]). The database has the next
//     offset of each partition as an input, and the id of the topic as that of a changelog.
//   - Only committed records make rows.
//   - Readers see no part of a restore: a table serves when it has reached the ends, and one that
//     is rebuilt later is rebuilt in a database beside it.
//   - The clock in the positions is the last time at which nothing was missing. It does not move
//     while something is.
//
// # Goroutines
//
// A table has one goroutine for its life, and while it reads one for each partition and one that
// watches the topic. All of them end with Close, which waits for them.
//
// # Memory
//
// Databases share the budget of the process. Beyond it, all tables together hold two answers of 1
// MiB at a time, and one answer of 64 KiB for each partition that is near its end. A larger single
// batch comes whole.
//
// # Failure
//
// Nothing here ends the process. A table that cannot go on tries again, keeps the rows that it
// serves, and says in its status what is wrong. If its database fails, readers get the error until
// the database is open again and has reached the ends. So a full disk stops the tasks that read the
// table as one of their own would, and they go on by themselves.
//
// # What it is not
//
// It knows no tasks, no memberships and no transactions. The position of a table is in no commit.
package globaltable
