// Package cli is the command line of Onceward: of the command onceward, and of programs with their
// own topologies:
//
//	func main() { os.Exit(cli.Run(payments)) }
//
// Such a program has all commands of onceward. Its commands take its topologies as well as
// pipelines from files. state and verify decode rows with the codecs of these topologies. Without a
// topology, rows are shown as text, or as base64 if they are not text.
//
// # Exit codes
//
//	0  done; for run: stopped in order after a signal, and no task had stopped before
//	1  failed: the cluster, the disk or another process is in the way, an action was refused, a key is not there;
//	   for run: a task had stopped; for plan: not everything is safe
//	2  usage: a flag, the environment, the configuration or the pipeline is wrong, or a newer build has the
//	   state or the group; nothing was touched
//	3  data integrity: stored state, changelog and offsets contradict each other, records were deleted before
//	   they were processed, or stored data is damaged; for demo: a figure differs; for bench: an answer is wrong;
//	   for verify: the state is not what its changelogs say, or they are not those of the state; for state check: a
//	   balance is not the sum of its contributions
//
// Problems go to the standard error, one line each: what, where, and what to do.
//
// # Configuration
//
// A setting has the value of the first of these that sets it:
//
//  1. the flag,
//  2. the environment variable that the help names beside the flag,
//  3. the YAML file that --config or ONCEWARD_CONFIG names; its keys are the names of flags,
//  4. the default.
//
// A flag without a variable is not a setting, but a choice for one call, such as --dry-run. An
// unknown setting is an error, so that a misspelt one is not ignored.
//
// A setting names the file with a password or token. A password can also be in
// ONCEWARD_SASL_PASSWORD. It is never a flag or a key of the configuration file.
//
// # Output
//
// Results go to the standard output, logs and problems to the standard error. Text is for people
// and may change. The JSON of --output json is for programs, and its fields stay.
//
// # Plan
//
// plan compares a topology with the topics, stores and offsets that exist, and says what its next
// start would do. It changes nothing. The state directory of each instance describes the topology
// that ran; --state-dir names it. --before takes that description from a file instead, as written
// by describe --output json. If ONCEWARD_STATE_DIR is set, give --state-dir= with --before. See
// admin.Plan for what is compared, and admin.Judgement for the findings. A rolling update that
// removes a repartition topic is refused while old instances have input, with or without a plan;
// package txn has the procedure.
//
// # Topics
//
// topics create creates the topics of a topology that are missing, with the numbers of partitions
// that the existing ones call for, or with --partitions. It alters no topic. See
// admin.Application.CreateTopics.
//
// # Progress
//
// Three commands show their progress on the standard error: verify, rebuild from-changelog of a
// stopped instance, and run while it restores. They show records and bytes read, offsets left, the
// rate, and the time left. They do so on a terminal, or with --progress. status has the same for a
// running instance.
//
// # State
//
// state and verify work on the state directory of an instance on this machine. They ask a running
// instance over the control socket in that directory. Otherwise they read the databases, and change
// nothing. Answers carry the task, the last round, the positions, and the epoch of ownership of a
// running instance. Rows of a task that is restoring, stopped, lost or in doubt need --stale.
//
// Rows are shown by key and value as the codecs of the store decode them, with the times of the
// kind of store: window_start, session_start and session_end, valid_from, timestamp. Keys in
// arguments, including those of ranges, have the same form. Stores of windows, sessions, series and
// ids sort by time first.
//
// state get --as-of shows what a key of a versioned store had at a time, as state.Versioned.GetAsOf
// has it.
//
// state export writes lines of JSON. The file is there when it is complete.
//
//	{"type":"partition"}  the positions, before the rows of each partition
//	{"type":"row"}        "key" and "value" as the codecs decode them, or "key_text", "key_hex" or "key_base64", and the
//	                      same for the value; times in milliseconds since the epoch; "deleted":true for a version
//	                      without a value
//	{"type":"end"}        the number of rows
//
// state scan --output json writes the first two.
//
// state check adds up the contributions of a ledger (processors/ledger), and compares the sums with
// the balances. Both must be of one moment, so a running instance is refused. Check a copy of its
// state instead, made by state checkpoint and state import. It ends with 0 only if every balance
// was checked and is right. verify answers another question: whether the state equals its
// changelogs. These have a wrong balance too, if a program wrote it.
//
// state checkpoint makes a directory from which state import makes the state of a task that an
// instance does not have. Its start replays only the records that were committed since. The
// instance may run during a checkpoint, but not during an import.
//
// verify ends with 0 only if every store was verified and is equal.
//
//   - A store that the last topology no longer had is not verified. Its outcome is "unused".
//   - A global table is compared with its topic, if the program or the pipeline that ran last is
//     known. Otherwise, and for a table that is restored from its topic (RestoreFromTopic), the
//     outcome is "skipped". Such a store is no failure, unless no other store was verified.
//   - A key that differs and was written again past the position of the state cannot be judged,
//     because compaction may have removed the record that the state came from.
//   - A row that only the state has cannot be judged if brokers may have deleted or compacted its
//     record by the clock. Stores expire rows by their stream time, which can be far behind the
//     clock.
//
// If nothing is worse than that, verify says so and ends with 1.
//
// # Evidence
//
// explain shows the decisions about a row in order, from a topic of evidence (processors/evidence),
// and each dead letter of its key once. It reads the partition of the key by Kafka's partitioner.
// Without any evidence it ends with 1.
//
//   - --follow reads all partitions. It adds the decisions of other rows about the same record or
//     the same id. For example, the inbox, whose rows are ids, has the reason why a contribution
//     counts once.
//   - --state-dir adds the present content of each store for the row. For a decision of a ledger or
//     a transition it adds the content of a store for its subject, with amounts, which evidence
//     does not have. The codecs of the pipeline given with -f decode both. ONCEWARD_STATE_DIR and
//     the key state-dir of the configuration file count too; --state-dir= turns them off.
//
// forensic runs a topology over its inputs, and leaves nothing on the cluster. It ends with 1 if a
// task would have stopped. With --compare it ends with 3 if the state of a stopped instance is not
// what the inputs make of an empty state. It ends with 1, and says the reason, if the state differs
// and depends on more than the inputs.
//
// contract prints the rules that writers of the inputs and readers of the outputs may rely on. They
// come from the processors of the topology, their options (topology.Node.Clause) and its policies.
// It asks no cluster.
//
// # Dead letters
//
//	deadletters list     what a dead-letter topic holds, without the records
//	deadletters show     one record, decoded by the codecs of the topic in which it died
//	deadletters edit     writes another edition of a record to the topic
//	deadletters redrive  writes records to the topics in which they died
//
// A redrive is exactly once, and may be killed and repeated: every batch is a transaction that
// includes marks of what was redriven. The header onceward.id has the id of a dead letter; a record
// keeps it when it dies again. --from chooses by the topic in which the record died first. It also
// chooses by the topic of the input, if a repartition topic keeps that (topology.KeepOrigin).
// Records that died three times are left, unless --deaths-max is higher, so that they do not come
// back without end.
//
// The principal needs to read and write the dead-letter topic, to write the topics in which records
// died, and the transactional id TOPIC~redrive.
//
// # Statuses
//
// inbox list shows the ids of an inbox (processors/inbox) with their statuses. effects list shows
// the calls to other systems (processors/effect): age, attempts, what they wait for, the expiry of
// a claim, and idempotency keys. It shows neither requests nor answers; effects show --payload
// does. Both read the rows that state scan reads. They understand the rows without a topology,
// count them by status, and leave out expired ones. inbox show and effects show have everything
// about one id. A status that no row can have is an error that names the right place.
//
// effects resolve records the outcome of an effect whose outcome is unknown.
//
//   - It finds the topic of resolutions and the partition from the state and from the description
//     of the running topology. The topology needs no further declaration.
//   - It says beforehand what the ledger would refuse. It waits until the instance has processed
//     the resolution, and reads the answer from the row of the effect.
//   - It ends with 0 only if the resolution is taken, or was taken before. After a lost answer the
//     same command can be repeated, and takes effect once.
//   - The principal needs to write to the topic of resolutions.
//   - The instance that has the effect must run on this machine, because its state has the effects
//     to resolve and their attempts, and its answer ends the command.
//   - The task of the ledger must read the topic itself. For a topic in front of a repartition
//     topic, the partition of arrival does not follow from the topic, so use another program to
//     write there.
//
// # Definitions of a projection
//
// projection verify and projection switch send a command to a running application that chooses
// between definitions (projection.Choose). The command goes to every partition of the topic of
// commands, and the answers have the results. verify changes nothing. switch first asks for a
// comparison in all partitions, and sends the command only if all agree.
//
// Each partition obeys in a transaction of its own, so an interruption can leave some switched.
// Repeat the command to continue, or give the other direction to go back. Both end with 0 only if
// all partitions have answered as requested. The principal needs to write the commands and to read
// the answers.
//
// # Signals
//
// On SIGINT or SIGTERM, run stops in order: it commits open rounds, flushes databases, and leaves
// the group. verify and state export remove incomplete files. rebuild from-changelog leaves the
// task at hand as it was. A second signal ends the process at once. That costs only the replay of a
// tail at the next start.
//
// # Concurrency
//
// Call Run or Main once at a time in a process, because it handles signals and reads the
// environment. All goroutines that it starts have ended when it returns.
package cli
