// Package txn runs a topology exactly once. Input offsets, outputs, changelog records and dead
// letters of a round commit in one Kafka transaction. Local state never holds a write that is not
// committed.
//
//	app, err := txn.New(t, txn.Config{Brokers: brokers, StateDir: dir})
//	err = app.Run(ctx)
//
// # Promises
//
//   - Exactly once from topic to topic, state included, under kill -9, rebalances, broker restarts,
//     lost replies and zombies. The consumers behind have to read committed records only. Calls to
//     other systems from user code are not included.
//   - A crash makes no local state unusable: a restart replays the tail of the changelogs. A
//     database is restored in full only if it is missing, or if a rule says why it cannot be used.
//   - A record that fails leaves no trace but its dead letter, which commits with the move past it.
//   - A commit without an answer is settled and then resolved from the log, never guessed.
//
// # How a round commits
//
// Records are processed into an overlay, each under a savepoint. A round of a worker then goes
//
//	flush        every output and changelog record is acknowledged, by the producer that began
//	offsets      TxnOffsetCommit under the membership that owns the tasks, with metadata that names the round and the exact changelog
//	             positions
//	end          the commit
//	apply        overlay and positions go to the database in one batch
//
// while the next round is being computed. Package internal/protocol has the state machine. Package
// internal/session runs one membership, and its documentation follows a record from fetch to
// commit.
//
// # Every failure and what follows
//
//	where            answer                                              meaning      what follows
//	produce, flush   a refusal that may pass, a connection that fails    refused      abort, run again
//	                 producer fenced, id or epoch changed, deadline,     lost         settle, run half of it again
//	                 any other code
//	                 record too large, invalid record or timestamp       one record   abort, run less and less until it is found;
//	                                                                                  it goes to its error policy
//	                 topic gone, no permission on it, its policy or      one topic    abort; the tasks that write to it stop, the
//	                 format refuses what is written                                   others run again
//	                 no permission on the transactional id or the        permanent    abort, then Run returns the error
//	                 cluster, a version or timeout that the broker
//	                 does not take
//	offsets          a task of the round was given up                    refused      abort, run again without it
//	                 ILLEGAL_GENERATION                                  refused      wait for the newer generation at most 1 s, once
//	                 UNKNOWN_MEMBER_ID, a changed member id              refused      abort; all tasks close, join again
//	                 no permission on an input topic                     one topic    abort; the tasks that read it stop, the
//	                                                                                  others run again
//	                 no permission on the group, FENCED_INSTANCE_ID,     permanent    abort, then Run returns the error
//	                 metadata too large for the broker
//	                 NOT_COORDINATOR, COORDINATOR_*, any other refusal   refused      abort, find the coordinator, run again
//	                 that may pass, a connection that fails
//	                 a topic that the coordinator does not know yet      refused      abort, run again
//	                 PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, deadline,  lost         settle, run half of it again
//	                 any other code of any partition
//	end (commit)     success                                             committed    apply
//	                 anything else, no answer                            in doubt     settle, read the stable offsets:
//	                   they carry this round                             committed    apply
//	                   they carry what was there before                  aborted      run half of it again
//	                   they carry something else                         not ours     close everything, join again
//	                   this round for some tasks only                    integrity    Run returns the error
//	end (abort)      anything but success                                lost         settle
//	settle           any error                                                        again with backoff
//	                 no permission                                       permanent    Run returns the error
//	apply            the disk is full                                    one task     that task stops until there is space, and
//	                                                                                  replays; the others go on
//	                 any other I/O error                                 one task     that task stops, and replays once it is
//	                                                                                  opened again; the others go on
//	                 the stored bytes are damaged                        one task     the same; integrity is the reason
//	                 any other error, as of a database that is not       integrity    Run returns the error; a restart replays
//	                 where the round begins
//
// FENCED_INSTANCE_ID means that another process runs as the same instance. If this process has just
// joined again itself, it counts as a changed member id. After it, the next start waits until 30 s
// have passed before it initialises producers. Two copies under a supervisor would otherwise fence
// each other in turn.
//
// # Stopped tasks and alerts
//
// A task stops if its partition cannot be fetched, because records were deleted or the topic is
// gone. A stopped task keeps its offsets, is not fetched, and has its reason in Status. Other tasks
// continue, unless [Config].FailFast ends Run. [App.Resume] opens the task again.
//
// A session looks at all topics every few seconds. It raises an [Alert] within a minute for a topic
// that was deleted, was deleted and created again, may not be used any more, or has partitions that
// no task reads. The alert is in the log, in Status, in the metric onceward_topic_problems, and
// /readyz answers that the process is not ready. Tasks that read such a topic, or keep their state
// in it, stop, except for partitions that are not read. A task that writes to it stops when it
// writes.
//
// The same look finds topics that a source by pattern matches ([topology.FromPattern]). A new one
// ends the membership, and the next one reads it. One that is deleted is read until then: a resume
// of a stopped task of it, or a restart, goes on without it. A new topic that would make the next
// membership fail is left out with an alert.
//
// A log can lose records in a change of leaders, if a replica that was not in sync becomes the
// leader. If records that were read are missing, the task stops for data integrity. If the log only
// looks shorter, it is fetched again.
//
// A task that stopped because the disk of the state directory is full resumes by itself. The
// process looks for space, first after a second and at most every minute. It then opens the task
// again, which replays the records that are not on the disk. Until then the task counts as working.
//
// If state and offsets do not name each other, the reason names the recovery actions. Package
// txn/admin has them as calls.
//
// Run returns when all tasks of the process are stopped, also if the last working one has moved
// away. A process without any task stays, in case others fail.
//
// "Settle" in the table discards the producer client and initialises a new one with the same
// transactional id. After that the old transaction is over, and its late requests are refused. "Run
// again" puts the journal of the round, which is still in memory, in front of all newer records.
// The consumer is not rewound.
//
// # Queries
//
// [Read] serves committed state of the tasks of this process, with the ownership epoch, the
// positions and the round that it belongs to. It refuses while a task restores, is stopped, has
// been lost, or has a commit in doubt for more than five seconds. [Stale] asks for the state as it
// is. Doubt begins when a commit is sent. It ends when the commit is answered, or when it is found
// in the stable offsets, and applied or run again. Package txn/admin reads state from another
// process, over the control socket or from the directory.
//
// [Query] reads the same from any instance: the plan of the group says which instance has a task,
// and that one judges whether it may answer. [Standbys] allows copies, [AtLeast] asks for a
// position. There is no bound of time for an owner (docs/decisions/0099). [App.QueryHandler] answers
// programs that are no instance, in JSON and for a [Client].
//
// # Versions
//
// Three formats outlive a process: the state directory, the commit metadata, and the user data of
// group members. Each has a major and a minor version. A newer minor version adds only what an
// older build can skip and leave out. Every other change is a new major version. So builds of one
// major version share a group and use a state directory in turn, and an upgrade can be rolled back
// without a change to a topic, an offset or a file.
//
// A downgrade over a major version is refused. The error wraps state.ErrFormat, and names both
// versions and the recovery action. Nothing is changed. Run returns it when the state directory or
// the members of the group belong to a newer build. A task whose last commit belongs to a newer
// build stops alone, as commits of different tasks can be of different builds.
//
// # Another topology
//
// Members of a group may run different topologies, for example while instances are replaced one
// after the other. `onceward plan` says beforehand what a new topology would do. Run refuses a
// topology that has no place for waiting records: parked records of a task that is gone, or records
// of a repartition topic that the topology no longer reads. It refuses before the state directory
// and the group know of the topology. Nothing is lost, and the other instances continue.
//
// Working instances nearly always have records in their repartition topics, so a rolling update
// cannot remove such a topic. The new instances are refused while old ones have input, and also
// after all old ones have stopped, if records are left. There are two ways:
//
//   - Stop the writers of the inputs until the plan no longer refuses the new topology. Then stop
//     all old instances, and start new ones. Lag is no measure here: it counts the transaction
//     markers in the log as well as records.
//   - If the writers cannot be stopped, run the new topology under an application id of its own. It
//     reads the inputs from where its sources begin.
//
// A start knows a repartition topic by the committed offsets of the group. The plan alone can judge
// a topic without committed offsets, and records of other codecs, from the description of the
// topology that ran.
//
// # Concurrency
//
// An [App] may be used from any goroutine. Its lasting goroutines are named in
// docs/internals/goroutines.md; all of them have ended when Run returns.
//
// # What it is not
//
// It does not create user topics, which an operator does (`onceward topics create`). It does not
// retry side effects, and it has no at-least-once mode.
package txn
