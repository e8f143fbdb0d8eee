// Package txn runs a topology exactly once: input offsets, outputs, changelog records and dead letters of a round commit in one Kafka
// transaction, and local state never holds a write that is not committed.
//
//	app, err := txn.New(t, txn.Config{Brokers: brokers, StateDir: dir})
//	err = app.Run(ctx)
//
// # Promises
//
//   - Exactly once from topic to topic, state included, under kill -9, rebalances, broker restarts, lost replies and zombies. The
//     consumers behind have to read committed records only. Calls to other systems from user code are outside of it.
//   - A crash makes no local state unusable: a restart replays the tail of the changelogs. Only a database that is not there, or of which a
//     rule says why it cannot be used, is restored in full.
//   - A record that fails leaves no trace but its dead letter, which commits with the move past it.
//   - A commit that was not answered is settled and then resolved from the log, never guessed.
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
// while the next round is being computed. Package internal/protocol has the state machine. Package internal/session runs one membership,
// and its documentation follows a record from fetch to commit.
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
//	                 UNKNOWN_MEMBER_ID, a changed member id              refused      abort; all tasks close, join anew
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
//	                   they carry something else                         not ours     close everything, join anew
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
// FENCED_INSTANCE_ID means that another process runs as the same instance, unless this one has just joined anew itself, which counts as a
// changed member id. The next start waits until 30 s have passed since, before it initialises producers: two copies under a supervisor
// would otherwise fence each other in turn.
//
// A partition that cannot be fetched (its records were deleted, its topic is gone) stops the task that reads it. A task that stops keeps
// its offsets, is not fetched, and says why in Status; its neighbours go on ([Config].FailFast ends Run instead). [App.Resume] opens it
// again.
// A session looks at all topics every few seconds. One that was deleted, was deleted and created anew, may not be used any more, or has
// partitions that no task reads is an [Alert] within a minute: in the log, in Status, in the metric onceward_topic_problems, and /readyz
// says that the process is not ready. The tasks that read such a topic, or keep their state in it, stop, partitions that are not read aside;
// a task that writes to it stops when it does.
// A log that after a change of leaders has not all the records that were read, as when a replica that was not in sync becomes the leader,
// stops the task that reads it as well, for data integrity. A log that only looks so is fetched anew.
// A task that stopped because the disk of the state directory is full goes on by itself: the process looks for space, first after a second
// and at most every minute, and opens the task again, which replays what the disk did not take. Until then it counts as one that works.
// Where state and offsets do not name each other, the reason names the commands that lead on; package txn/admin has them as calls.
// When all tasks that the process has are stopped, Run returns, also when the last one that worked has moved away; a process without any
// task stays, in case others fail.
//
// "Settle" throws the producer client away and initialises a new one with the same transactional id: after that the old transaction
// is over and its late requests are refused. "Run again" puts the round's journal, which is still in memory, before everything
// newer; the consumer is not rewound.
//
// # Queries
//
// [Read] serves committed state of the tasks that are here, with the ownership epoch, the positions and the round that it belongs to. It
// refuses while a task restores, is stopped, has been lost, or has a commit in doubt for more than five seconds; [Stale] asks for what there
// is. Doubt begins when a commit is sent, and ends when it is answered, or found in the stable offsets and applied or run again. Package
// txn/admin reads state from another process, over the control socket or from the directory.
//
// # Versions
//
// Three formats outlive a process: the state directory, the commit metadata, and what the members of a group tell each other. Each has a
// major and a minor version, and one rule: a newer minor version adds only what an older build can skip and leave out, a newer major
// version is everything else. So builds of one major version share a group and use a state directory in turn, and an upgrade can be
// rolled back; no topic, offset or file has to be changed for it.
//
// Downgrades over a major version are refused, with an error that wraps state.ErrFormat and names both versions and the way out, and
// nothing is changed. Run returns it when the state directory or the members of the group are a newer build's. A task whose last commit
// is a newer build's stops alone, as the commits of different tasks can be of different builds.
//
// # Another topology
//
// Members of a group may run different topologies, as while instances are replaced one after the other. What the start of a new one makes of what
// there is, `onceward plan` says before. Run refuses one that has no place for what waits, before the state directory and the group know of it:
// parked records of a task that is gone, or records of a repartition topic that the topology does not read any more. Nothing is lost by that,
// and the others go on.
//
// Instances that work have nearly always records in their repartition topics. So a rolling update cannot take such a topic away: the new
// instances are refused for as long as old ones have input, and so are they once all old ones have stopped, if records were left. Hold up what
// writes to the inputs until the plan refuses the new topology no more, then stop all old instances and start new ones. (Lag does not tell it: it
// counts what transactions leave in a log beside records.) Where the inputs cannot be held up, run the new topology under an application id of its
// own, which reads them from where its sources begin.
//
// A start knows a repartition topic by the offsets that the group has committed in it. Of one in which it has never committed anything, and of what
// was written by other codecs, the plan alone can tell, from the description of the topology that ran.
//
// # Concurrency
//
// An [App] may be used from any goroutine. Its lasting goroutines are named in ARCHITECTURE.md; all of them have ended when Run returns.
//
// # What it is not
//
// It does not create user topics, it does not retry side effects, and it has no at-least-once mode.
package txn
