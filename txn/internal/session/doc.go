// Package session runs one membership of the group: it joins, opens the tasks that are assigned,
// has their records processed, gives tasks up, and takes everything down in order.
//
// # Contract
//
// Package txn makes a [Session] for each membership and calls [Session.Run] once. A session ends
// with its context, with an error, or so that another one follows: [Restartable] tells whether a
// new membership is the remedy. Tasks are never carried from one session to the next. [Config] has
// all that outlives a session: clients, the state directory, what the process tells of itself
// ([assign.Self]), the look for hanging transactions, requests for rebuilds. A session leaves
// [Left].
//
// # A record's way
//
//	broker.Group  fetches; one goroutine, that of Run, polls
//	dispatch      gives the records to the task that reads their partition, and pauses partitions
//	task          queues them, and takes the oldest of its inputs
//	worker        processes them into a round, and takes the round through the commit protocol
//
// The session is beside this way, not on it: it decides which tasks are there.
//
// # Parts
//
// The arrows are imports; none leads back.
//
//	txn ──► session ──► hangwatch
//	            ├─────► opening ──► dispatch
//	            ├─────► purge ────► dispatch
//	            ├─────► ends ─────► dispatch
//	            └─────► dispatch ─► worker ─► task
//
//	hangwatch   which transactional ids are not used because a transaction hangs; repairs
//	opening     restores a task, makes its graph, gives it to a worker
//	purge       deletes records that no task needs any more
//	ends        where inputs end, and for which transactions they wait
//	dispatch    the tasks, the partitions that lead to them, and why a partition is paused
//
// The files of the session itself:
//
//	session.go                         New, Run, the poll loop, and the orderly end
//	assignment.go, rebalance.go        what the group tells: assigned, revoked, lost, planned
//	stoppedtasks.go, shortenedlog.go   why a task stops, and when the session ends with it
//	topicwatch.go, space.go            the loops that look at topics and at the disk
//	restartable.go, fencedinstance.go  whether another session follows
//	reader.go, states.go               queries, by way of [Reader], which belongs to the process
//	gauges.go                          metrics and readiness
//
// # Invariants
//
//   - The member id is read before a task is opened, and compared when it is ready (protocol rule
//     7.1). A changed one ends the session (rule 6.2).
//   - A task that is given up loses its ownership epoch first, so that nothing of it commits any
//     more, and is waited for then (rule 6.4).
//   - The goroutines that open one task run one after the other: the paths on the disk are the
//     task's.
//   - A stopped task keeps its offsets and is not fetched. The session ends when no task works,
//     unless one is promised (rule 10.5).
//   - An orderly end commits what is open, and leaves the positions of each task in the rounds
//     topic (rule 7.6).
//
// # Concurrency
//
// Two contexts nest: the poll context ends first, and what was fetched can still be committed; the
// session's own ends everything. Run has ended all goroutines of the session when it returns. The
// callbacks of the group run on a goroutine of the client and never wait longer than [RevokeWait].
// Locks: table of tasks, then pauses, then session; and ownership, then session. None is held over
// I/O or a wait, but for one that lets a single goroutine look for disk space.
//
// # Failure
//
// A failure of one task stops that task. A failure of the membership ends the session, and a new
// one begins from the committed offsets. Data that contradict the log end the process, whatever
// else has failed.
//
// # What it is not
//
// It has no settings of its own, chooses no transactional ids, and knows nothing of what came
// before the membership.
package session
