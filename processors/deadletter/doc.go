// Package deadletter is for programs that use dead letters: [Send] makes records dead letters, and
// [Parse] reads a dead-letter topic. Package topology says what a dead letter is, and when the
// runtime writes one.
//
//	once := inbox.Dedupe(events, "inbox", eventID, inbox.Forever(), inbox.EmitConflicts())
//	deadletter.Send(once.Conflicts(), "disputed", topology.Conflict, "two captures under one event id")
//
// # Sending
//
// To send a record is to fail its input record, in the transaction that moves past the input. So
// the dead letter holds the bytes that were read, and not the results of steps before Send. Nothing
// else of that input remains: no state, no output, no count, in any part of the topology. To keep a
// record aside while the rest of its effects stay, write it to a topic with Into.
//
// Without a dead-letter topic (topology.DeadLetters) a sent record stops its task, like every
// record that fails for good: a record is never dropped.
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
// A dead-letter topic also holds records that operators write (package txn/admin): editions, which
// are dead letters with the id of another one and a higher Edition, and marks of redriven dead
// letters. For marks Parse returns graph.ErrNoDeadLetter.
//
// # Redriving
//
// The command onceward deadletters, and the DeadLetters of txn/admin for programs, list and edit
// dead letters, and write records again to where they failed. A redriven record is the original
// record with headers about its failures. Its topology does not see these headers and processes it
// like every other record. If the record has had its effects in the meantime, for example because
// the event was sent again, an inbox prevents a second effect.
//
// # Concurrency
//
// A [Letter] is a value. Parse is safe for concurrent use.
//
// # What it is not
//
// The records behind a dead one of their key go on without it. Where they must not, the key is
// parked instead: see topology.ParkKeys.
package deadletter
