// Package effect makes calls to other systems: payments, mails, whatever a Kafka transaction does not reach. It
// keeps a ledger of them, so that each one has an idempotency key that never changes, one row that says how far it
// has come, and one answer, however often it is asked for.
//
//	captured := effect.Perform(captures, "capture", captureRequest, gateway.Capture, effect.Lookup(gateway.Find))
//	captured.Completed().Into(Captured)
//	captured.Failed().Into(Refused)
//	captured.Unknown().Into(ForPeople)
//
// # What it does not promise
//
// A call to another system is never exactly once. The promise of Onceward ends where a transaction ends: between a
// call and the commit of its outcome the process can die, and then no program can know whether the call arrived.
// This package makes the rest small and visible:
//
//   - A call is only made when a claim of it is committed, and a claim is used by one opening of a task, once. So
//     neither an aborted round, nor a duplicate, nor a second instance makes a call again.
//   - What nobody knows has a status of its own, [Unknown]. It is looked up ([Lookup]), or repeated where the
//     provider itself makes one effect of one key ([Repeatable]), or it waits for a person ([Resolve]). It is never
//     taken for a failure, and never blindly tried again. That lasts until it is known: a repeated call that had no
//     effect says nothing about the one before, and a version of the application that can neither look up nor repeat
//     tells people what it finds unknown.
//   - Every call carries the same idempotency key. A provider that honours it turns what is left into exactly
//     once; with one that does not, at most one call is made of which it was not known that it had no effect.
//
// # Contract
//
// Every request has exactly one outcome, and is counted under its name when the round that contains it is applied:
//
//	outcome       when                                               what follows
//	requested     the id is new                                      the call
//	suppressed    the id is new and no calls are made in this mode,  Suppressed
//	              or it was suppressed before
//	in-progress   the same request, whose effect has no end          InProgress
//	replayed      the same request, whose effect has an end          Completed, Failed
//	conflicts     another request under the id                       it fails (Conflict)
//	                                                                 with EmitConflicts: Conflicts
//	(failure)     no key, an id or other text that is unusable,      it fails (Validation)
//	              more than 256 KiB, or no JSON ([PayloadJSON])
//
// [EmitConflicts] alone decides whether a conflict fails. Build reports a use of Conflicts without the option, and the
// option without a use of Conflicts. The other streams may be used or not.
//
// Every effect then comes to an end, which is told once, with the key, the time and the headers of its request:
//
//	status            what it means                          goes to      what follows
//	COMPLETED         it has happened                        Completed
//	FAILED_TERMINAL   it has not happened and will not       Failed
//	FAILED_RETRYABLE  it has not happened                                 a call, after a pause; at last FAILED_TERMINAL
//	UNKNOWN           nobody knows                           Unknown (*)  a lookup or a call, after a pause; or a person
//
// (*) once neither a lookup nor a call is left to the program. A lookup can end with each of the four. A call that is
// made while the effect is unknown can complete it, and leaves it unknown otherwise. The row has the first two statuses
// before that: RECEIVED, and STARTED while a call is claimed.
//
// The answer to the request is not the answer to the record: results go through an internal topic, so that a record
// which fails behind them cannot undo what is known of a call that was made.
//
// # The two steps, and every place where a process can die
//
// What a handler does is only true when its round is committed, and a handler cannot see that: the next round
// computes while the previous one commits, and an aborted round runs again. So the handler of a request must not
// call. It writes the row (RECEIVED) and puts the effect on the agenda. Then:
//
//  1. A tick of the task claims what is due: it writes the claim with the rows (STARTED), and sends it to an
//     internal topic, addressed to its own task.
//  2. The record of the claim comes back. Records are read when they are committed, so the claim is. Now the calls
//     are made, and in the same round the outcomes are written, the claim is removed, and results are sent.
//
// So there are these places:
//
//	the process dies, or the round is aborted          what is known afterwards, and what follows
//	before the claim is committed                      no call was made; the tick claims again
//	after that, before the call                        the claim is there: it may have been made. The claim expires,
//	during the call                                    the effect is UNKNOWN, and is looked up, repeated where that
//	after it, before the outcome is committed          is safe, or shown to a person
//	the same, but the process lives                    the round runs again and finds the outcomes in its memory
//	after the outcome is committed                     all of it
//
// The claim names the opening of the task by a random name that lives in memory only. Whoever reads the claim under
// the same name knows that nobody else has used it, and whether it has itself; under another name nobody knows, and
// the claim is left to expire. That is why there is a claim and not just a row that says "started".
//
// A claim expires for one reason: an instance that is cut off or was frozen may still be calling. Before each call
// the caller looks at the clock, and starts none that would not have ended when the claim does. The next opening
// leaves the claim alone for that long and the grace on top ([Claims]), which has to cover the difference of the
// clocks, and goes on with everything else. What is left is a process that is frozen between that look and the first
// byte of the call, for longer than claim and grace: its call comes late, and only the idempotency key stands against
// it.
//
// A clean stop is no different from a crash for a claim that is open in that moment, some milliseconds in each loop:
// its effects are UNKNOWN until they are looked up.
//
// Rejected: calling in the handler of the request (a round that is aborted calls again, and nothing knows of it);
// calling from a tick after the claim (a tick does not know what is committed); an outbox that a program of its own
// reads (the same two steps, with two states that have to agree); letting the claims of an opening that is gone expire
// at once (it may not be gone).
//
// # Order and speed
//
// Effects are not ordered, not even those of one key: what must follow an effect is requested when its result has
// come. A task makes [Parallel] calls at once, and takes no records meanwhile, for a second and one [Timeout] at most;
// nor do other tasks of the same worker. An application with slow calls is best one of its own.
//
// # Lag
//
// The lag of the input says nothing about calls: requests are processed when they come. The gauge overdue-milliseconds of
// the node says for how long the oldest step that is due has not been taken, an open claim included.
//
// # Modes
//
// Calls are made in mode topology.Live alone, unless [AlsoIn] asks for more: a replay must not capture a payment a
// second time. A request in another mode is remembered as suppressed, and stays so for its duplicates in a live run,
// because nobody knows whether the call was made when the event was new; [Resolve] can release it. What was requested
// live and is due while the application runs in another mode waits.
//
// # Origin
//
// Calls are made in the turns of claims, which a clock makes and no record of an input. So the internal topics of a ledger do not keep origins
// (topology.KeepOrigin): of what is decided there, and of the results of calls, there is none, and they are known by the ids of the effect. Answers
// to duplicates, which have one, go the same way. A dead letter from there says where the record died, and nothing else.
//
// # People
//
// What people say ([Resolution]) names the attempt that they have judged. So a copy of it, or one that comes late, does
// not release a call of which they know nothing. Who has said it, and why, is kept with the effect until the program finds
// out more, and is a decision for evidence ([Resolutions.Decisions]).
//
// `onceward effects list` shows effects, with --status UNKNOWN those that may wait for a person, and `effects show` all
// that is known of one. `effects resolve` writes a resolution: it finds topic and partition, says beforehand what Resolve
// would refuse ([Effect.Takes]), and waits until it is taken. It runs beside the instance that has the effect, and needs a topic that this reads
// itself: what goes through topology.Repartition before [Resolve] has to be written by other means.
//
// # Scope
//
// The ledger is per partition: the copies of a request need the same record key, as copies of one message have, or
// topology.Repartition before.
//
// # Stored form
//
// Three stores belong to a ledger. <name> has a row for each effect ([Effect] as JSON) under its id; <name>-due the
// agenda, whose keys are the time in eight bytes, big-endian, and the id, with empty values; <name>-claim the open
// claims, as JSON, under the names of their openings. The internal topics are those of the repartitionings
// <name>-claims and <name>-results, as JSON. There is no retention: a row is what a duplicate is answered from.
//
// # Concurrency
//
// request is called by all tasks at once; the functions that call and look up by several goroutines of every task.
// The goroutines end before the handler that started them. An [Effects] is a value that is used while the topology
// is declared.
//
// # Testing
//
// Claims go by the clock of the machine. A topologytest.Driver needs a clock near it, topologytest.Clock(time.Now()),
// and Advance for every step: a claim is made by a tick, every 20 ms.
package effect
