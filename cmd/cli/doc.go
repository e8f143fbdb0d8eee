// Package cli is the command line of Onceward, for the command onceward and for programs with topologies of
// their own:
//
//	func main() { os.Exit(cli.Run(payments)) }
//
// Such a program has all commands of onceward, and run and describe take its topologies beside pipelines in
// files. state and verify show rows as the codecs of its topologies read them; without a topology or a pipeline
// in a file, rows are text, or base64 where they are none.
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
//	   balance is not what its contributions come to
//
// What goes wrong is said on the standard error, in one line for each problem: what, where, and what to do.
//
// # Configuration
//
// A setting comes from the first of these that has it: the flag, the environment variable that the help names
// beside it, the YAML file that --config or ONCEWARD_CONFIG names, whose keys are the names of such flags, the
// default. A flag without a variable is no setting: it says what one call does, such as --dry-run. A setting that no
// command has is a mistake, so that a misspelt one is not ignored.
//
// A password or token is given in a file that a setting names, or the password in ONCEWARD_SASL_PASSWORD; it is
// no flag and no key of the configuration file.
//
// # Output
//
// Results go to the standard output, logs and problems to the standard error. Text is for people and may
// change; the JSON of --output json is for programs, and its fields stay.
//
// # Plan
//
// plan says what the next start of a topology would make of the topics, stores and offsets that there are, and touches nothing. What ran is
// described in the state directory of each instance, which --state-dir names; --before takes the description from a file instead, as
// describe --output json has written it; with ONCEWARD_STATE_DIR set, --state-dir= goes with that. See admin.Plan for what it looks at and
// admin.Judgement for what it says. Where a repartition topic goes, a rolling update is refused while old instances have input, whether or not it
// is planned: package txn says what to do.
//
// # Progress
//
// verify, rebuild from-changelog of a stopped instance, and run while it restores, say on the standard error how far they
// are: records and bytes that were read, offsets that are left, how many go by in a second, and how long the rest takes.
// They do so on a terminal, and with --progress anywhere; otherwise they are quiet. status has it of a running instance.
//
// # State
//
// state and verify work on the state directory of an instance on this machine. While the instance runs they ask it
// over the control socket in that directory, and otherwise they read the databases, and change nothing. Answers
// carry the task, the last round, the positions and, of a running instance, the epoch of its ownership. What is read
// while a task is restored, stopped, lost or in doubt has to be asked for with --stale.
//
// Rows are shown by key and value as the store's codecs have made them, with the times that the kind of the store has
// beside them: window_start, session_start and session_end, valid_from, timestamp. Keys that are given, those of ranges
// included, are such keys. Stores of windows, sessions, series and ids have their rows in the order of time first.
//
// state export writes lines of JSON: {"type":"partition"} with the positions before the rows of each partition,
// {"type":"row"} with "key" and "value" as the codecs read them, or "key_text", "key_hex" or "key_base64" (and so
// for the value), with times in milliseconds since the epoch, and "deleted":true for a version without a value; and
// {"type":"end"} with the number of rows. state scan --output json writes the first two.
// The file is there when it is complete.
//
// state check adds up the contributions of a ledger (processors/ledger) and compares the balances that are kept beside
// them. Both have to be of one moment: an instance that runs is refused, and a copy of its state that state checkpoint and
// state import have made can be checked instead. It ends with 0 only if every balance was checked and is the same. verify
// asks another question, whether the state is what its changelogs say: those have a wrong balance as well if a program has
// written it.
//
// state checkpoint makes a directory that state import turns into the state of a task which an instance does not
// have: its start replays only what was committed since. The instance may run while a checkpoint is taken, and must
// not for an import.
//
// verify ends with 0 only if every store was verified and is equal. Rows of a store that the last topology did not
// have any more are not looked at, and their outcome is "unused". Keys that differ and were written again past the
// position of the state cannot be judged, because compaction may have removed what the state was made of.
// Neither can rows that only the state has and that are so old that brokers may have deleted or compacted their
// records by the clock: stores forget by their stream time, which can be far behind it. If there is nothing worse, it
// ends with 1 and says so.
//
// # Benchmarks
//
// bench measures on a cluster that runs, and that takes clients without TLS and SASL. bench fill writes the input of a workload, bench
// run processes it as an application of this process until so many records are committed, and reports what package throughput measures;
// then it reads input, output and state again and compares. bench check does that for an output that somebody else has written. bench
// latency sends events at a rate, through an application that it starts as a process of its own, or with --external through one that runs
// already.
//
// # Evidence
//
// explain shows the decisions about a row, in their order, from a topic of evidence (processors/evidence), and the dead
// letters of its key, each once. Of the evidence it reads the partition to which Kafka's partitioner gives the key. Without any
// it ends with 1. With --follow it reads all partitions, and shows behind each decision those of other rows that are about the same
// record or the same id: why a contribution counts once is in the inbox, whose rows are ids. With --state-dir it shows what each store
// holds in the row now, and beside each decision of a ledger or a transition what a store holds of its subject: that has the amounts, which
// no evidence has. Named with -f, the pipeline's codecs read them. ONCEWARD_STATE_DIR and state-dir in the configuration file name the directory
// for explain as for all commands, so that on the machine of an instance it is shown unasked; --state-dir= leaves it out.
//
// forensic runs a topology over what its inputs hold and leaves nothing on the cluster; it ends with 1 if a task would
// have stopped, and with --compare with 3 if the state of a stopped instance is not what the inputs make of nothing, or
// with 1 if it differs and depends on more than the inputs hold, which is said with the reason.
// contract prints what those may rely on who feed a topology or read from it, as its processors and their options say it
// (topology.Node.Clause) and as its policies do; it asks no cluster.
//
// # Dead letters
//
// deadletters list shows what a dead-letter topic holds, without the records; show has a record, as the codecs of the
// topic in which it died read it; edit keeps another edition of it in the topic; redrive writes records to where they
// died. A redrive is exactly once: every batch is a transaction with the marks that say what was redriven, so it may be
// killed and done again. A letter is named by the id that is in the header onceward.id, which a record keeps when it dies
// again. --from chooses letters by the topic in which the record died first, and by the topic of the input that it came from, where a
// repartition topic keeps that (topology.KeepOrigin). Records that died three times are left, unless --deaths-max says otherwise: they would come back for ever. The
// principal needs to read and write the dead-letter topic, to write the topics in which records died, and the
// transactional id TOPIC~redrive.
//
// # Statuses
//
// inbox list shows the ids that an inbox (processors/inbox) knows, with their statuses, and effects list the calls to other systems
// (processors/effect): how old they are, how often they were tried, what they wait for, the expiry of a claim included, and their idempotency
// keys, and of what was sent and answered nothing; effects show --payload has that. Both read the rows that state scan reads, and nothing
// else, but know without a topology what they say, count them by status, and leave out what is forgotten. What an operator asks of one id,
// inbox show and effects show tell. To ask for a status that no row can have is a mistake, which says where else to look.
//
// effects resolve says what has become of an effect that nobody knows about. It finds the topic of resolutions and the partition from the state
// and the description of what runs, says beforehand what the ledger would refuse, and waits until the instance has come past what it wrote: the
// row of the effect is the answer, so that nothing need be declared for it. It ends with 0 only if it is taken, or was taken before. After
// an answer that did not come the same may be said again, which is taken once. The principal needs to write the resolutions. The instance
// that has the effect has to run on this machine: what there is to resolve, and after how many attempts, is in its state, and nobody else would
// say what becomes of it. The topic has to be one that people write to and the ledger's own task reads. Resolutions that go through a
// repartition topic on their way to effect.Resolve are written by other means: the partition in which they arrive, and when they are past, does not
// follow from where they are written.
//
// # Definitions of a projection
//
// projection verify and projection switch ask a running application that chooses between definitions (projection.Choose): a command goes to
// every partition of its topic of commands, and its answers say what became of it. verify changes nothing. switch asks for a comparison in
// all partitions first, and sends the command only if all agree. Each partition obeys in a transaction of its own, so an interruption can
// leave some that have switched and some that have not; done again, it goes on, and the other way it goes back. Both end with 0 only if all
// partitions have answered as it was asked. The principal needs to write the commands and to read the answers.
//
// # Signals
//
// On SIGINT or SIGTERM, run stops in order: what is open is committed, databases are flushed, the group is
// left. verify and state export remove what is half done, and rebuild from-changelog leaves the task that it is at as it
// was. A second signal has its usual effect and ends the process at once, which costs nothing but the replay of a tail at
// the next start.
//
// # Concurrency
//
// Main may be called once at a time in a process, because it handles signals and reads the environment. All
// goroutines that it starts have ended when it returns.
package cli
