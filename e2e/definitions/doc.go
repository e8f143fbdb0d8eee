// Package definitions builds the second definition of a projection beside the first one, switches to it and back again under load, and
// kills whoever is at work in the middle of each step.
//
// # The applications
//
//	events ─┬─ definition 1 ─┐
//	        │                ├─ choice ── served
//	        │   commands ────┤    └────── answers
//	        └─ definition 2 ─┴ (rows-2)
//
// The application has definition 1, which adds up the amounts of a key, and the choice between the two. Definition 2 adds up their squares:
// it is another application over the same input, with a group and a state of its own, that begins with the first event and writes its rows
// to a topic. A row names the definition that it is of, so that every row that is served tells who has answered.
//
// # A scene
//
//	the application works    in this process
//	definition 2 is built    in a process of its own, which is killed at the point of the cell; another life goes on with it
//	it is verified           by commands, until every partition says that it could follow
//	the switch               in a process that is killed at the point of the cell, in the round in which it obeys the command: that is its
//	                         first round, because it has met nothing else before. Events are written as soon as it is at work on the
//	                         command, and while it is gone. The next life finishes what was left.
//	the roll back            is a switch the other way, and is killed at another point
//	the life from nothing    has to restore everything from the changelogs, the active definition as well
//
// # What is checked
//
// What was served is compared with a recount: a loop over the amounts of each key that shares no code with the processors. In every
// partition one definition has answered for all keys at any time, first 1, then 2, then 1 again; when another one begins, it answers for
// every key that was served before, and no key is answered for a second time before that; between that the versions of a key follow one
// another, without one that is missing or comes twice. Each partition has switched once each way, although commands were killed and
// repeated. Nothing is left open at the broker, and nothing is a dead letter. That the kill has met the switch is looked at too: before the
// end of the transaction no answer to the command can be read, and behind it there is one.
//
// TestTheCheckFindsWrongAnswers damages what was served in every way that has a name, and TestBrokenIsFound runs a choice that keeps in
// memory what it has to keep in stores: a kill shows that.
//
// # What it is not
//
// What a comparison finds, and what becomes of commands that are refused, forced or repeated, is shown by package projection itself, and
// the command `onceward projection` by its script. It needs the signals of Unix.
package definitions
