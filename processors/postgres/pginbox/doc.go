// Package pginbox marks events as handled in the SQL transaction that has their effect, so that
// each event has its effect once, whatever broker delivers it and however often.
//
//	inbox, err := pginbox.New(pool, "billing")
//	...
//	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		claimed, err := inbox.TryMark(ctx, tx, event.ID, event.Type, event.Account)
//		if err != nil || !claimed {
//			return err // a duplicate commits nothing, and is acknowledged
//		}
//		return bill(ctx, tx, event)
//	})
//	if err == nil {
//		acknowledge(event)
//	}
//
// The tables are made by postgres.Migrate.
//
// # Contract
//
// The event is acknowledged after the COMMIT has succeeded, and never before. If anything fails, it
// is not acknowledged and comes again.
//
//	outcome    when                                                  effect
//	claimed    the id was not seen before                            the caller's, in the same transaction
//	duplicate  the id was seen, or its business key, with the same   none
//	           payload or with none to compare
//	conflict   the id was seen, or its business key, with another    none; an operator has to look at it
//	           payload
//	late       the event is older than what the inbox remembers      none; it is unknown whether it was handled
//
// [Inbox.TryMark] knows the first two. [Inbox.Mark] has all of them, for events that have a payload
// hash, a business key or a time. A duplicate is an outcome and never an error.
//
// A mark belongs to a service: two services that share a database may each handle the same event,
// and two inboxes of one name are one.
//
// # Invariants
//
//   - The row of the mark and the effect commit together or not at all.
//   - Of any number of transactions that mark one id at the same time, one claims it. The others
//     wait for its end: if it commits, they find a duplicate, and if it does not, one of them
//     claims the id.
//   - A decision about an id stays, until the retention is over.
//
// # The id, the payload and the business key
//
// The id is chosen for the effect that must happen once: a source event id, a command id, an
// aggregate id with its version. It is valid UTF-8 of 1 to 1024 bytes, without zero bytes. A time
// of processing or a random number is no id, because the second copy has another one.
//
// A payload is compared by its SHA-256, which the caller makes: schemas.HashJSON of a JSON
// document, whose spelling then does not count, or crypto/sha256 of bytes. How a service hashes is
// for as long as it remembers. A hash of zeros, or a row without a hash, compares with nothing.
//
// The business key is what makes two events the same fact, such as the order that is paid. An event
// with a key that was seen under another id is a duplicate or a conflict, and leaves a row, so that
// its copies go the same way.
//
// # Retention
//
// A mark is kept for 180 days ([Retention]) from the start of its transaction, by the clock of the
// server. [Inbox.Clean] deletes older marks; with [Archive] it moves them to
// onceward.inbox_archive. Without Clean all marks stay.
//
// The retention has to be longer than the time after which a copy can still come: the retention of
// the topic, and the age of a dead letter or a backup that is sent again. [ReplayWindow] states
// that time, and New refuses a shorter retention. An event with a time ([Event.Time]) that is older
// than the retention, and without a mark, is late and never claimed.
//
// # Failure
//
//	what fails                          what follows
//	crash before the COMMIT             nothing has happened; the event comes again and is claimed
//	crash after it                      the event comes again and is a duplicate
//	COMMIT without an answer            unknown: the event comes again, and is claimed or a duplicate
//	serialization failure, deadlock     the transaction is rolled back and the event comes again; postgres.ClassOf says transient
//	the effect fails                    the transaction is rolled back, with the mark
//
// An error aborts the transaction, as every SQL error does. With isolation levels above READ
// COMMITTED a concurrent copy gets a serialization failure (40001) instead of the answer that it is
// a duplicate.
//
// Transactions that mark several events in different orders can deadlock; PostgreSQL ends one of
// them. A batch that is sorted by id does not.
//
// # Concurrency
//
// An Inbox is safe for concurrent use, by any number of processes.
//
// # What it is not
//
// [Inbox.Exists] is for people and reports. To decide by it and then to mark is the gap through
// which a second copy slips.
//
// Calls to other systems are not undone by a rollback, and can be made twice.
//
// Metrics count decisions, also those of transactions that are rolled back afterwards: the inbox
// does not see the COMMIT.
package pginbox
