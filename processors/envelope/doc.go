// Package envelope names what identifies a message, and what a message comes from, apart from its
// payload: six ids that are often mixed up, each with a header of its own.
//
//	id               header                     is the identity of
//	message id       onceward.message-id        one message: a copy of it has the same one
//	event id         onceward.event-id, ce_id   what has happened, whatever messages tell of it
//	idempotency key  onceward.idempotency-key   what somebody wants done once, chosen by whoever asks
//	aggregate id     onceward.aggregate-id      the thing that it happened to: an account, an order
//	correlation id   onceward.correlation-id,   the whole story that the message is a part of
//	                 ce_correlationid
//	causation id     onceward.causation-id,     the message that made somebody send this one
//	                 ce_causationid
//
// The second names are those of CloudEvents in Kafka's binary mode, and are read where the first
// are missing. A header that is empty is missing.
//
// # Contract
//
// A topology passes headers on from a record to all that is made of it, dead letters included, so
// that the ids travel without anybody's help. But an output is another message than its input, and
// tells of something else. [Caused] gives what is emitted a message id of its own, the id of the
// cause, and an event id and idempotency key that follow from those of the record. They are made of
// those, and of the name of the operator, and of nothing else ([DerivedID]), so that an output that
// is made again, by a replay or by another instance, has the same ones, and a consumer behind us
// can dedupe by any of them. Aggregate id and correlation id stay; where there is no correlation
// id, it is the id of the cause.
//
// [MessageID], [EventID] and [IdempotencyKey] are id functions for package inbox. Which of them is
// right depends on the effect that must happen once; correlation id and aggregate id never are,
// because many messages share one.
//
// # Concurrency
//
// Everything is safe for concurrent use.
//
// # What it is not
//
// The package trusts headers: who may write to a topic may write any id into it.
package envelope
