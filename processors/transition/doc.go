// Package transition guards the state machines of aggregates, such as an order that is placed, paid
// and shipped. A program declares the states and the transitions between them. A transition is
// accepted only if the aggregate is in the state that it leaves. Every other transition is refused
// for a named reason.
//
//	machine := transition.Machine[State]{
//		Initial: []State{Placed},
//		Next:    map[State][]State{Placed: {Paid, Cancelled}, Paid: {Shipped}, Shipped: nil, Cancelled: nil},
//	}
//	orders := transition.Guard(events, "orders", machine, read, transition.EmitRefused())
//	orders.Facts().Into(OrderFacts)
//	orders.Refused().Into(OrderRefusals)
//
// The aggregate of a record is its key: an order, an account. A transition has an id, the state
// that it leaves and the state that it enters. One that creates the aggregate leaves the state "".
//
// # Contract
//
// Every record has exactly one outcome, and is counted under its name (a duplicate as duplicates,
// as elsewhere) when the round that contains it is applied. The first line that holds decides:
//
//	outcome            when                                                         unless emitted
//	duplicate          the id was accepted, with the same states and version        the record ends
//	corruption         the id was accepted, with others                             fails (Conflict)
//	illegal            the machine has no transition between the two states         fails (Validation)
//	missing-aggregate  there is no aggregate, and the transition creates none       fails (Validation)
//	accepted           the aggregate is in the state that is left, or is created
//	stale              the aggregate was in that state before                       fails (Conflict)
//	out-of-order       it was not, and can still get there                          fails (Validation)
//	illegal            it was not, and can never get there                          fails (Validation)
//
// The last four lines are about a machine without versions. With [Versioned] the version of the
// transition decides in their place, which must be the one after that of the aggregate. Its
// versions have no gaps, so that all from the first one on belong to transitions that were
// accepted, and a copy of those is known by its id:
//
//	stale              it is before the first one of the aggregate                  fails (Conflict)
//	corruption         it was accepted, under another id: two histories disagree    fails (Conflict)
//	out-of-order       it is higher than the next one                               fails (Validation)
//	corruption         it is the next one, and the aggregate is in another state    fails (Conflict)
//	accepted           otherwise, and where it creates the aggregate
//
// The six refusals are always distinguished. [EmitRefused] says which of them are emitted instead
// of failing, and [Guarded.Refused] returns a stream for some or all of them. The message of a dead
// letter names its refusal. Build reports two mistakes: a stream for a refusal that fails, and an
// emitted refusal without a stream. A refused transition changes nothing, so it can come again: one
// that was out of order is accepted after those before it.
//
// Three errors stop the task, because no record caused them:
//   - rows that were not written by a guard (class Corruption)
//   - an aggregate in a state that the machine does not have (class Config)
//   - a transition with a version where the guard is not [Versioned] (class Config)
//
// Before all of that, these records fail with class Validation:
//   - records with a null key
//   - records without a usable id (valid UTF-8 of 1 to 1024 bytes)
//   - records without the state that they enter, or without their version
//
// A failed record becomes a dead letter, unless a policy says otherwise ([OnError]).
//
// # Facts
//
// Accepted transitions are recorded once: as a row, for ever, and as a [Fact] on Facts, in the same
// transaction. However often the record comes, and whatever crashes, there is one fact for one id.
// The facts of an aggregate have versions without a gap, and each leaves the state that the one
// before it has entered.
//
// # Cycles
//
// Where an aggregate can come back to a state, "was there before" and "can still get there" both
// hold, and stale is what is said. Only versions tell the two apart: a machine with cycles, whose
// records can come late or early, wants [Versioned].
//
// # Replay
//
// The same records over empty stores give the same rows, facts and refusals. Over existing stores,
// an accepted transition is a duplicate, and has no second fact. A refused transition is judged
// again: one that was out of order then may be accepted now, like any that comes again.
//
// # Changing a machine
//
// States and transitions can be added at any restart. One that is taken away refuses what comes
// from then on; what was accepted stays. A state can be taken away when no aggregate is in it.
// Whether the guard is [Versioned] cannot be changed: tasks whose rows were written otherwise do
// not open.
//
// # Stored form
//
// Two stores belong to a guard, <name>-aggregates and <name>-transitions. Integers are big-endian;
// a text is its length in one byte, and its bytes in UTF-8.
//
// The key of an aggregate is the record's key. That of a transition is the encoded record key with
// each byte 00 replaced by 00 FF, then 00 01, then the id in UTF-8.
//
//	aggregate                                        transition
//	offset  bytes  content                           offset  bytes  content
//	0       1      format, 1; 2 with Versioned       0       1      format, 1
//	1       8      version                           1       8      version of the aggregate after it
//	9       8      timestamp of the record that      9       8      timestamp of the record, likewise
//	               was accepted last, in             17             text: the state that it left
//	               milliseconds since the epoch                     text: the state that it entered
//	        8      with Versioned: the version
//	               with which it begins
//	17, 25  1      number of texts, at least 1
//	               texts: the state; then the others
//	               that it was in before, sorted
//
// # Growth
//
// There is no retention: transitions stay. A duplicate of an expired one would look stale, or would
// be accepted again if the machine has a cycle.
//
// # Concurrency
//
// The function that reads the transition is called by all tasks at once and must be safe for that.
// A [Guarded] is a value that is used while the topology is declared. A [Machine] is not changed,
// and not kept.
//
// # What it is not
//
// It runs nothing: entering a state has no action but what consumes Accepted or Facts. It holds no
// record back: what is out of order is refused, and comes again by redrive. And it is per
// partition: all records of an aggregate are in one partition, as Kafka's partitioners see to it.
package transition
