// Package metrics has the Prometheus metrics of a process: their names, their meaning, and the
// places that count.
//
// # Contract
//
// Counts of committed work rise when the round is applied, never before: an aborted round adds
// nothing to them, and the run that replaces it adds everything once. Technical work (polled,
// processed, retries, failures, aborts) is counted when it happens and may count a record several
// times. Counters live as long as the process and survive every membership. Gauges are read from
// the runtime at the moment of the scrape, and an unknown value is absent rather than 0.
//
// Labels are names of the program and of the cluster (task, node, outcome, gauge, topic, partition,
// worker, class) or words of a set (kind, holder, cause, phase, state, reason, extent, resolution,
// event, use, problem). Keys, values, ids and error texts are never labels.
//
// # Counters
//
//	onceward_records_polled_total{topic,partition}       records fetched, control records aside
//	onceward_records_processed_total{worker}             records run through the graph, runs of aborted rounds included
//	onceward_records_committed_total{task,topic,partition}  records of applied rounds
//	onceward_outputs_committed_total{task}               outputs of applied rounds, dead letters included
//	onceward_changelog_records_committed_total{task}     changelog records of applied rounds, one per key
//	onceward_dead_letters_total{task,node,class}         dead letters of applied rounds (quarantined)
//	onceward_node_outcomes_total{task,node,outcome}      what nodes counted, of applied rounds
//	onceward_rounds_committed_total{worker}              rounds applied
//	onceward_rounds_aborted_total{worker,cause}          rounds whose work was dropped and put back, see below
//	onceward_records_rerun_total{worker}                 records that these rounds put back
//	onceward_retries_total{task,class}                   records postponed by their policy (retryable)
//	onceward_commit_failures_total{worker,kind}          answers of a commit that were not the one hoped for
//	onceward_rounds_in_doubt_total{worker}               commits that were not answered with success
//	onceward_in_doubt_resolutions_total{worker,resolution}  what the log said of them: committed, aborted, foreign, mixed
//	onceward_control_markers_total{worker}               partitions touched by transactions that ended: markers the brokers write
//	onceward_partitions_moved_total{event}               partitions assigned, revoked, lost
//	onceward_memberships_total                           memberships begun by this process
//	onceward_peers_fenced_total                          instances that this process took for dead and fenced
//	onceward_transactions_repaired_total                 partitions in which this process has ended a transaction that hung
//	onceward_restores_total{task,extent,reason}          restores done: nothing, tail, or full and why
//	onceward_restore_records_total{task}                 changelog records read by restores, failed ones included
//	onceward_restore_bytes_total{task}                   their keys and values
//	onceward_global_table_records_total{store}           records read into a global table
//	onceward_global_table_skipped_total{store}           records of a global table that make no row
//
// The causes of aborts are flush_failed, offsets_refused, producer_lost, commit_unknown (in doubt,
// and the log said aborted), base_aborted (the round below it was) and task_given_up.
//
// # Gauges
//
//	onceward_info{application,instance,mode}             1; the mode is LIVE, REPLAY, BACKFILL or REPAIR
//	onceward_tasks{state}                                tasks that are restoring, running, stopped
//	onceward_standbys{state}                             copies of other instances' tasks that are restoring, warm, failing
//	onceward_partitions_paused{reason}                   input partitions not fetched: queue_full, restoring, retrying, stopped
//	onceward_topic_problems{topic,problem}               1 for what is wrong with a topic: deleted, recreated, not_permitted,
//	                                                     partitions_not_read; absent for the others
//	onceward_input_partitions_unassigned{topic}          partitions of an input that no task reads
//	onceward_transactions_hanging                        transactions of the application that nothing ends, when it was last looked
//	onceward_transaction_waits{kind,holder}              partitions with an open transaction that tasks wait for, see below
//	onceward_transaction_wait_seconds{kind}              the longest of these waits
//	onceward_global_table_lag_stable_offsets{store}      from the position of a global table to the last stable offsets
//	onceward_global_table_remaining_offsets{store}       offsets that a restore or rebuild of a global table has before it
//	onceward_input_committed_offset{task,topic,partition}
//	onceward_input_lag_offsets{task,topic,partition}     from the committed position to the high watermark
//	onceward_input_lag_stable_offsets{...}               from the committed position to the last stable offset
//	onceward_input_oldest_pending_age_seconds{...}       age of the oldest record that is fetched and not committed, by its timestamp
//	onceward_input_queue_bytes{...}                      records fetched and not committed
//	onceward_parked_keys{task,topic}                     keys that are parked, for sources with ParkKeys
//	onceward_parked_records{task,topic}                  records that wait: the first of each key has failed, the others are behind it
//	onceward_node_value{task,node,gauge}                 what nodes show: overdue-milliseconds of effects, waiting-records of projections
//	onceward_task_stream_time_seconds{task}              stream time of the last commit, in Unix seconds
//	onceward_worker_overlay_bytes{worker}                state writes of the open round
//	onceward_worker_round_bytes{worker}                  input and output of the open round
//	onceward_worker_commit_time_seconds{worker}          smoothed time from seal to applied, which paces commits
//	onceward_worker_open_transaction_age_seconds{worker} age of the older open transaction, 0 without one
//	onceward_restore_remaining_offsets{task}             offsets that a restore has before it; absent for tasks that do not restore
//	onceward_restore_offsets_per_second{task}            how fast they become fewer: what remains over this is the time that is left
//	onceward_restore_memory_bytes                        what restores have read and not written yet
//	onceward_restore_memory_limit_bytes                  the most that it may be
//	onceward_state_*{task}                               databases: disk_bytes, memtable_bytes, unflushed_bytes, l0_sublevels,
//	                                                     read_amplification, compaction_debt_bytes, compactions_total,
//	                                                     flushes_total (the last two since the database was opened), and the
//	                                                     buffer of committed rounds: buffer_bytes, waits_total, wait_seconds_total
//	onceward_cache_*                                     the block cache that they share: bytes, hits_total, misses_total
//	onceward_memory_budget_bytes                         what all databases share
//	onceward_memory_bytes{use}                           what it is spent on: blocks (the cache), memtables, buffers, loads, kept,
//	                                                     in_memory (tables of stores in memory, which may be more than the budget)
//	onceward_memory_unflushed_bytes                      applied by all databases and not on the disk
//	onceward_memory_unflushed_limit_bytes                from there on those that have their share of it hold back
//	onceward_memory_share_bytes                          the share
//	onceward_databases_open                              databases of the process
//	onceward_databases_held                              those that hold back now
//
// A task waits for the end of three kinds of transactions. One keeps its committed offsets unstable
// (offsets), one is open on a changelog which is restored (changelog), and one is open on an input
// (input). The holder is unknown until the wait has lasted for the
// transaction timeout and 15 s, or for a minute if that is less. Then brokers and coordinators are
// asked whether the transaction is ongoing or hanging. A hanging transaction does not end by
// itself. The holder stays unknown if no coordinator names the producer: its transactional id may
// be one that the principal may not describe.
//
// The two lags differ by the records that open transactions of producers before us hold. Both are
// distances in offsets and count control records, so that behind a transactional producer an idle
// input shows 1 until the next commit. High watermark and last stable offset are listed every few
// seconds by a goroutine of the session, and not taken from fetches. A partition that is paused or
// being restored is not fetched, and its lag matters most. The lag is absent for a task that is not
// open, and when the offsets could not be listed for long. The pending age and the worker's gauges
// are at most a second old.
//
// # Histograms
//
//	onceward_slice_seconds                               processing: up to 256 records of a worker in a row
//	onceward_round_records                               records per applied round
//	onceward_commit_seconds                              from seal to applied
//	onceward_commit_phase_seconds{phase}                 flush, offsets, end, apply (the latency of the store); abort, settle, ask
//	onceward_transaction_open_seconds                    how long transactions were open: it bounds the latency of readers of our outputs
//	onceward_record_age_seconds                          age of the oldest record of a round, by its timestamp, when it is applied
//	onceward_restore_seconds                             restores that had something to read
//	onceward_query_seconds{store,outcome}                until a query had its view or an error: answered, forwarded, refused, failed
//
// # What to look at
//
// Lag of an input is what has come and is not processed. The lag of effects is apart from it: what
// was requested is processed at once, and overdue-milliseconds of the ledger's node says how long
// the oldest step that is due has not been taken. A spike of the outcome duplicates is a signal;
// one conflict is an alert: it is counted as conflicts where something takes conflicts, and as
// dead-letter-conflict where nothing does. Any onceward_topic_problems is an alert: the series of
// the lag of such a topic can be absent. Lag to the high watermark tells how far behind the process
// is; the pending age tells whether what it has fetched gets through. A budget that is too small
// shows as onceward_databases_held above 0 and onceward_state_wait_seconds_total that grows.
//
// # Left out
//
// The counts of processors (duplicates, conflicts, stale, gaps, claims, expired claims, failed and
// unknown effects) are outcomes of their nodes, under the names that their packages give; there is
// no second counter for them. No gauge has the number of effects that wait; they are in the store
// <name>-due. The Kafka clients' own metrics (connections, bytes per broker) are not taken over.
//
// # Concurrency
//
// A [Metrics] may be used from any goroutine, a [Worker] belongs to its worker: Applied,
// Contributed and Retried to the compute goroutine, the rest to any. The zero Worker pointer counts
// nothing. Nothing here blocks.
package metrics
