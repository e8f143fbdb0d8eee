// Package postgres brings exactly once to services that keep their state in PostgreSQL, and read or
// feed Kafka topics.
//
//	package    what it is for
//	pginbox    a consumer of any broker marks each event in the transaction that has its effect
//	pgoutbox   a service writes events in its transaction, and a relay publishes them to Kafka
//	pgqueue    a consumer stores what arrives, and workers process it later, each event in the transaction that settles it
//	pgsink     records of Kafka topics are applied to tables, together with the offsets, so that no event has to be marked
//	pgrequests a service answers each request of its clients with one effect and one answer
//	pgapply    versioned rows, contributions and transitions, whose writes say what became of them
//
// examples/payments is a service that uses them, with a topology between an outbox and a sink.
// cmd/onceward-postgres is the command of operators for queues, outboxes, sinks, requests and
// inboxes. It also migrates.
//
// The packages are a module of their own, so that programs without SQL do not depend on the driver,
// pgx.
//
// # Contract
//
// Every package has the same principle: what says that an event was handled, and what handling it
// has changed, are rows that one SQL transaction commits. After a crash both are there, or neither.
//
// Outside of the promise is what a handler does to other systems: a mail that was sent is not taken
// back by a rollback.
//
// # Tables
//
// The tables are in the schema onceward. [Migrate] creates them and brings them up to date.
// Services that share a database share the tables; their rows are told apart by the name of the
// service or sink. Where other tools own the schema, [Migrations] has the statements.
//
// A role that uses the packages needs USAGE on the schema onceward, and SELECT, INSERT, UPDATE and
// DELETE on its tables.
//
// # Invariants
//
//   - A migration that was released never changes. A new build can need a later one, and an old
//     build works with the tables of the next release.
//   - Times are those of the database server, so that the clocks of workers decide nothing.
//
// # Figures
//
// Conditions: one run, an idle machine with 2 processors, PostgreSQL of Debian on the same machine,
// a Unix socket. The server that the tests start does not wait for its disk (fsync=off).
//
//	statement in a transaction                 median    99th percentile
//	pginbox TryMark, claimed                   60.6 us   139 us     1 million marks in the table
//	                                           60.0 us   138 us     10 million
//	pginbox TryMark, duplicate                 116 us    179 us     1 million; two statements
//	                                           120 us    208 us     10 million
//	plain INSERT into a table with a key       53.7 us   133 us     1 million
//	                                           54.5 us   138 us     10 million
//
//	HTTP request                               median    99th percentile
//	pgrequests Handler, first request          401 us    846 us
//	pgrequests Handler, replay                 279 us    575 us
//	the transaction of its Func alone          178 us    378 us
//
//	records of a topic, batches of 500         records/s in three runs
//	pgsink                                     323,000   373,000   412,000
//	a plain consumer with offsets in Kafka     204,000   238,000   268,000
//
// These benchmarks measure them again: pginbox BenchmarkTryMark (-marks 10000000), pgrequests
// BenchmarkHandler, pgsink BenchmarkSink (-benchtime 200000x).
//
// TryMark could find a duplicate with one statement. Claims would then be slower by 14 %: 29.6 us
// instead of 26.0 us, in turns in one run, over a Unix socket. Most events are claimed.
//
// # Failure
//
// [ClassOf] returns the class of an error of PostgreSQL, as in package topology. A COMMIT without
// an answer is neither a failure nor a success: its sender reads the rows to learn which. pgsink
// does so. A caller of pginbox delivers the event again, and TryMark answers that it is a duplicate
// if the COMMIT took effect. pgqueue.Store gives the same answer to the copy.
//
// PostgreSQL 15 or newer is required. A server that loses a committed transaction breaks the
// promise: that is synchronous_commit=off, and asynchronous replication where a standby is
// promoted.
package postgres
