// Package deadletter is how users meet dead letters: [Send] makes records die on purpose, and
// [Parse] reads what is in the dead-letter topic. What a dead letter is, and when the runtime
// writes one, is said in package topology; nothing of that is repeated here.
//
//	once := inbox.Dedupe(events, "inbox", eventID, inbox.Forever(), inbox.EmitConflicts())
//	deadletter.Send(once.Conflicts(), "disputed", topology.Conflict, "two captures under one event id")
//
// # Sending
//
// To send a record is to fail the input record that it was made of, in the transaction that moves
// past it. So the dead letter holds the bytes that were read, and not what steps before Send made
// of them, and nothing else of that input remains: no state, no output, no count, in whatever part
// of the topology. A record that is to be kept aside while the rest of its effects stay is written
// to a topic with Into.
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
// A dead-letter topic also holds what operators do with letters (package txn/admin): editions of a
// letter, which are letters with its id and a higher Edition, and marks of those that were
// redriven, for which Parse returns graph.ErrNoDeadLetter.
//
// # Redriving
//
// The command onceward deadletters, and txn/admin's DeadLetters for programs, list dead letters,
// edit them, and write records again to where they died. A redriven record is the record as it was,
// with headers that say of its deaths, which its topology does not see: it goes the way of every
// other record. Whatever it has done already by another way, such as the same event sent again, has
// no second effect where an inbox stands before it.
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
