// Package pgoutbox publishes events to Kafka that a service has written in its own SQL transaction,
// so that there is an event if, and only if, there is the change that it tells of.
//
//	outbox, err := pgoutbox.New(pgoutbox.Config{
//		Name:   "payments",
//		Pool:   pool,
//		Client: []kgo.Opt{kgo.SeedBrokers("kafka:9092")},
//	})
//	...
//	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, "INSERT INTO payments ...", ...); err != nil {
//			return err
//		}
//		return outbox.Append(ctx, tx, pgoutbox.Event{ID: "paid-17", Topic: "payments", Aggregate: account, Value: value})
//	})
//	...
//	err = outbox.Run(ctx) // the relay, in as many processes as wanted
//
// The tables are made by postgres.Migrate.
//
// # Contract
//
// A relay publishes every event that a committed transaction has appended, at least once. The
// record is the same each time: key, value, headers and timestamp. It has the id of the event in
// the header onceward.event-id (package envelope). An event of a transaction that was rolled back
// is not published.
//
// A relay that dies behind the answer of the brokers and before its COMMIT has published events
// that the next one publishes again. A consumer drops the copies by their id, with processors/inbox
// and envelope.EventID, or with pginbox. Then each event has its effect once.
//
// # Invariants
//
//   - Transactions that append events of one aggregate follow one another, so that entries of an
//     aggregate have their numbers in the order of the COMMITs, and none appears before one that a
//     relay has seen.
//   - A relay publishes an event of an aggregate when all earlier ones are answered by all replicas
//     that are in sync, or are in quarantine. So none passes one that has failed, that another
//     relay has, or whose transaction commits late.
//   - The first records of the events of an aggregate are in their order, whatever copies lie
//     between them: every relay publishes in this order, and begins with the first event that is
//     not marked.
//   - A relay finds entries by their status, and not by the last number that it has seen. A
//     transaction that commits late is not left out.
//
// # Order and speed
//
// Of an aggregate one record at a time is on its way to the brokers. Aggregates, and events without
// one, are published side by side, [Config.BatchRecords] in one transaction and 16 MiB. A relay
// locks the entries that it publishes; others skip them, and the aggregates that they belong to.
//
// Append notifies relays in the caller's transaction. PostgreSQL lets such transactions of one
// server commit one after the other.
//
// The order holds within a partition: give all events of an aggregate one topic, and one key.
// Without [Event.Key] that is the aggregate.
//
// A transaction that appends events of several aggregates in several calls of Append can deadlock
// with another one; PostgreSQL ends one of them. Each aggregate takes an advisory lock until the
// end of the transaction.
//
// # Failure
//
//	what fails                                 what follows
//	the server or the connection               the batch is rolled back and tried again; what was answered is published again
//	COMMIT of the relay without an answer      its entries are published again unless they are marked
//	the brokers take no record                 the relay tries again, with pauses of up to 5 s
//	a record is refused, or its topic is not   the entry is tried again, with a pause that doubles up to [Config.RetryMax]; those behind it
//	there; its partition takes none            in its aggregate wait, and others go on
//	tables or rights are missing               Run returns an error
//
// A batch has room for both: a quarter is for entries that have failed, the rest for entries that
// have not. When some records of a batch were taken and no answer has come for 2 s, the others have
// failed. So a partition that takes nothing slows the others down to a batch in 2 s and does not
// stop them. Run several relays if that is too slow.
//
// An event that is refused stays until a person takes it out ([Outbox.Quarantine]), or the cause is
// gone: leaving it out would be a gap that readers cannot see. Its aggregate grows meanwhile. A
// relay holds the entries that wait behind it: one update for each, and no batch reads them again
// until an earlier entry of the aggregate is published or quarantined.
//
// # Frozen relays
//
// A relay that freezes holds its entries until the server ends its transaction, after
// [Config.IdleInTransaction]. When it comes back it marks nothing.
//
// # Retention
//
// Published entries are kept for a day ([Config.Retention]), for people. Relays remove older ones
// every minute, in small transactions.
//
// # Concurrency
//
// An Outbox is safe for concurrent use. Run has one transaction at a time, one connection that
// listens, and one for measuring and cleaning, and waits for what it has started. A NOTIFY wakes
// relays; they also look every [Config.Poll], and so work behind a pooler that passes no
// notifications.
//
// # Metrics
//
// They have the label outbox, and names that begin with onceward_postgres_outbox_: appended_total,
// published_total, unmarked_total, cleaned_total, failures_total by class, oldest_pending_seconds,
// pending_events and publish_seconds. The age of the oldest pending event is the lag to alert on.
//
// # What it is not
//
// It does not publish in a Kafka transaction: readers see records at once. It does not dedupe what
// a service appends: an id that is still in the outbox is an error, [ErrAppended].
package pgoutbox
