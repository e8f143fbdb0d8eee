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
// cmd/onceward-postgres is the command of operators for queues, outboxes and requests. It also
// migrates.
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
// # Failure
//
// [ClassOf] says what kind of failure an error of PostgreSQL is, in the classes of package
// topology. A COMMIT that was not answered is no failure and no success: whoever has sent it reads
// the rows to learn which. pgsink does so; a caller of pginbox delivers the event again, and
// TryMark answers that it is a duplicate if the COMMIT took effect. pgqueue.Store answers the same
// to the copy.
//
// PostgreSQL 15 or newer is required. A server that loses a committed transaction breaks the
// promise: that is synchronous_commit=off, and asynchronous replication where a standby is
// promoted.
package postgres
