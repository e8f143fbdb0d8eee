// Package effect makes calls to other systems, such as payments and mails, that a Kafka transaction
// does not reach. It keeps a ledger of these effects. Each effect has an idempotency key that never
// changes, one row with its status, and one answer for all copies of its request.
//
//	captured := effect.Perform(captures, "capture", captureRequest, gateway.Capture, effect.Lookup(gateway.Find))
//	captured.Completed().Into(Captured)
//	captured.Failed().Into(Refused)
//	captured.Unknown().Into(ForPeople)
//
// # What it does not promise
//
// A call to another system is never exactly once. The promise of Onceward ends with the
// transaction. The process can die between a call and the commit of its outcome, and then no
// program can know whether the call arrived. This package makes that case rare and visible:
//
//   - A call is made only after its claim is committed. One opening of a task uses a claim, once.
//     So an aborted round, a duplicate or a second instance does not repeat a call.
//   - An effect whose outcome is unknown has a status of its own, [Unknown]. It is looked up
//     ([Lookup]), or repeated if the provider makes one effect of one key ([Repeatable]), or it
//     waits for a person ([Resolve]). It never counts as a failure, and is never tried again
//     blindly. It stays unknown until a lookup, a repeated call that succeeds, or a person decides.
//     A repeated call without effect says nothing about the one before. A version of the
//     application that can neither look up nor repeat passes unknown effects to people.
//   - Every call carries the same idempotency key. A provider that honours it makes the effect
//     happen exactly once. With another provider, at most one call can have had an effect that is
//     not known.
//
// # Contract
//
// Every request has exactly one outcome, and is counted under its name when the round that contains
// it is applied:
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
// [EmitConflicts] alone decides whether a conflict fails. Build reports a use of Conflicts without
// the option, and the option without a use of Conflicts. The other streams may be used or not.
//
// Every effect has one end. It is emitted once, with the key, the time and the headers of its
// request:
//
//	status            what it means                          goes to      what follows
//	COMPLETED         it has happened                        Completed
//	FAILED_TERMINAL   it has not happened and will not       Failed
//	FAILED_RETRYABLE  it has not happened                                 a call, after a pause; at last FAILED_TERMINAL
//	UNKNOWN           it is not known                        Unknown (*)  a lookup or a call, after a pause; or a person
//
// (*) after the program has no lookup and no call left. A lookup can end with each of the four. A
// call for an unknown effect can complete it; otherwise the effect stays unknown. Before these, the
// row has the status RECEIVED, and STARTED while a call is claimed.
//
// The outcome of a call is separate from the outcome of the record. Results go through an internal
// topic, so a record that fails behind them cannot undo the knowledge of a call.
//
// # The two steps, and every place where a process can die
//
// The work of a handler is final when its round is committed, and a handler cannot see that. The
// next round computes while the previous one commits, and an aborted round runs again. So the
// handler of a request must not call. It writes the row (RECEIVED) and puts the effect into the
// timer queue. Then:
//
//  1. A tick of the task claims what is due: it writes the claim with the rows (STARTED), and sends
//     it to an internal topic, addressed to its own task.
//  2. The record of the claim comes back. Records are read when they are committed, so the claim
//     is. Now the calls are made, and in the same round the outcomes are written, the claim is
//     removed, and results are sent.
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
// The claim names the opening of the task by a random name that lives in memory only. An opening
// that reads a claim with its own name is the only one that can have used it, and knows whether it
// has. A claim with another name may have been used, so it is left to expire. For this reason there
// is a claim, and not just a row with the status "started".
//
// A claim expires because an instance that is cut off or was frozen may still be calling. Before
// each call the caller looks at the clock, and does not begin a call that could outlast the claim.
// The next opening leaves the claim alone until it expires and the grace has passed ([Claims]), and
// continues with everything else. The grace has to cover the difference of the clocks. One case is
// left: a process that freezes between that look and the first byte of the call, for longer than
// claim and grace. Its call comes late, and only the idempotency key protects against it.
//
// A clean stop treats an open claim as a crash does. Claims are open for some milliseconds in each
// loop. Their effects are UNKNOWN until they are looked up.
//
// Rejected:
//
//   - Calls in the handler of the request: an aborted round would call again, without a trace.
//   - Calls from a tick after the claim: a tick does not know what is committed.
//   - An outbox that another program reads: it has the same two steps, and two states that must
//     agree.
//   - Claims that expire at once when their opening is gone: it may still be alive.
//
// # Order and speed
//
// Effects are not ordered, not even those of one key. Request an effect that must follow another
// one when the result of the first has come. A task makes [Parallel] calls at once. Meanwhile it,
// and the other tasks of its worker, take no records, for a second and one [Timeout] at most. Give
// slow calls an application of their own.
//
// # Lag
//
// The lag of the input does not include calls, because requests are processed when they come. The
// gauge overdue-milliseconds of the node says for how long the oldest step is due, an open claim
// included.
//
// # Modes
//
// Calls are made in mode topology.Live only, unless [AlsoIn] adds others: a replay must not capture
// a payment a second time. A request in another mode is remembered as suppressed. It stays
// suppressed for its duplicates in a live run, because the call may have been made when the event
// was new. [Resolve] can release it. An effect that was requested live and is due in another mode
// waits.
//
// # Origin
//
// A clock makes the turns of claims, in which calls are made, and no input record belongs to them.
// So the internal topics of a ledger do not keep origins (topology.KeepOrigin). Decisions there,
// results of calls, and answers to duplicates are identified by the id of the effect. A dead letter
// from there says where the record died, and nothing else.
//
// # People
//
// A [Resolution] names the attempt that the person has judged. So a copy of it, or a late one, does
// not release a call that the person does not know. The author and the reason stay with the effect
// until the program finds out more, and are a decision for evidence ([Resolutions.Decisions]).
//
// `onceward effects list` shows effects; with --status UNKNOWN, those that may wait for a person.
// `effects show` has all facts about one. `effects resolve` writes a resolution: it finds topic and
// partition, says beforehand what Resolve would refuse ([Effect.Accepts]), and waits until it is
// taken. It runs beside the instance that has the effect. The topic must be one that [Resolve]
// reads itself; a topic in front of topology.Repartition needs another way to write.
//
// # Scope
//
// The ledger is per partition: the copies of a request need the same record key, as copies of one
// message have, or topology.Repartition before.
//
// # Stored form
//
// Three stores belong to a ledger:
//
//	<name>        a row for each effect ([Effect] as JSON) under its id
//	<name>-due    the timer queue: time in eight bytes, big-endian, and the id; empty values
//	<name>-claim  the open claims, as JSON, under the names of their openings
//
// The internal topics are those of the repartitionings <name>-claims and <name>-results, as JSON.
// There is no retention, because a duplicate is answered from the row.
//
// # Concurrency
//
// All tasks call request at the same time. Several goroutines of every task call the functions that
// call and look up. These goroutines end before the handler that started them. An [Effects] is a
// value that is used while the topology is declared.
//
// # Testing
//
// Claims follow the clock of the machine. A topologytest.Driver needs a clock near it,
// topologytest.Clock(time.Now()), and Advance for every step: a tick makes a claim, every 20 ms.
package effect
