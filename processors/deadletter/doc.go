// Package deadletter is how users meet dead letters: [Send] makes records die on purpose, and [Parse] reads
// what is in the dead-letter topic. What a dead letter is, and when the runtime writes one, is said in
// package topology; nothing of that is repeated here.
//
//	once := inbox.Dedupe(events, "inbox", eventID)
//	deadletter.Send(once.Conflicts(), "disputed", topology.Conflict, "two captures under one event id")
//
// # Sending
//
// To send a record is to fail the input record that it was made of, in the transaction that moves past it.
// So the dead letter holds the bytes that were read, and not what steps before Send made of them, and
// nothing else of that input remains: no state, no output, no count, in whatever part of the topology. A
// record that is to be kept aside while the rest of its effects stay is written to a topic with Into.
//
// Without a dead-letter topic (topology.DeadLetters) a sent record stops its task, like every record that
// fails for good: a record is never dropped.
//
// # Reading
//
// A topology of its own reads a dead-letter topic; that which writes it must not.
//
//	b := topology.NewBuilder("dead-letter-office")
//	dead := topology.From(b, topology.Topic("payments.dead", schemas.Bytes(), schemas.Bytes()),
//		topology.KeepDeadLetterHeaders())
//	dead.Peek("log", func(r topology.Record[[]byte, []byte]) error {
//		letter, err := deadletter.Parse(r)
//		...
//
// # Concurrency
//
// A [Letter] is a value. Parse is safe for concurrent use.
//
// # What it is not
//
// Nothing lists, fixes or redrives dead letters yet, and nothing holds back the records behind a dead one of
// their key.
package deadletter
