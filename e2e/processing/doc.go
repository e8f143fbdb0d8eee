// Package processing tests the processors (packages processors/...) on brokers. One application has
// all of them; small applications have those whose tests need another shape. The applications are
// killed, frozen, cut off and fed with duplicates. Afterwards everything they wrote is compared
// with a recount that shares no code with the processors.
//
// # The pipeline
//
//	events ── door ── inbox ─── by-account ── accounts ── lifecycle ── orders ─┬─ standings ── choice ── commands
//	          delays  by id,    parks keys    waits for   accepts or   by key  ├─ balances
//	                  one hour,               versions    refuses              ├─ flows, by days
//	                  archives                and asks                         ├─ payouts ── gateway
//	                                                                           ├─ notices ── post ── findings
//	                                                                           └─ world
//
// An event is a fact about an account, with an id and a version. The door delays some events
// through retry topics. The inbox accepts the first delivery of each id, makes contradicting
// deliveries dead letters, and archives expired ids. The projection accounts orders the facts of an
// account by version, and requests missing ones from the source. The guard lifecycle accepts the
// facts that are transitions of the account. The inbox orders drops facts that are the same order
// under another id.
//
// Of the rest, the projection standings keeps the last one by two definitions, and commands choose
// one of them. The ledger balances adds up the amounts, the ledger flows does so for windows of
// days. The effects payouts are calls to a gateway that loses replies and honours no idempotency
// keys. The effects notices are calls to one that cannot be asked, so that a person finds out what
// has become of them. Last, the world may be down, which parks the account, or closed, which makes
// a dead letter that an operator redrives. All decisions are in a topic of evidence.
//
// TestMatrix has a test for each row of the failure matrix, on virtual time. After each test,
// outputs, dead letters, evidence, payments and stores are compared with the recount. Then all ids
// in the inbox expire, the state directory is removed, and the state restored from the changelogs
// is compared again. TestMatrixOnKafka runs the rows for which a real broker makes a difference,
// and kills and freezes processes. The test plays the source, the operator and the person.
//
// TestAnyInterleaving runs random histories in memory (package topologytest): duplicates, losses,
// re-orderings, contradictions, corrections, poison, failures, restarts, crashes and aborts of the
// same facts come to what the clean sequence comes to. TestReplayConverges replays them. A
// failure names its seed. Package simulation runs the pipeline with [Surroundings] under its
// faults, and compares with the same recount.
//
// No row depends on time: faults strike at failpoints, and everything else waits until all input
// has its output. Results that depend on the order in which facts happen to arrive are not
// compared, for example which of them had to wait. The requests to the source must name every lost
// fact once. The standings must come in order, from one definition up to a switch and from the
// other one afterwards.
//
// # Dead letters
//
// The tests named for requirements G1, G5 and G6 run an application that dedupes payments and sums
// them per account, and can close accounts. It parks, delays or rejects payments to closed accounts
// under load and kills. The command that redrives dead letters runs as a process, also against the
// embedded broker, and is killed at each of its steps. Afterwards every payment has had its effect
// once, and in order where keys are parked.
//
// # Definitions
//
// TestKilledDuringASwitch builds the second definition of a projection beside the first one,
// switches to it and back under load, and kills the application at work at each point of a commit:
//
//	events ─┬─ definition 1 ─┐
//	        │                ├─ choice ── served
//	        │   commands ────┤    └────── answers
//	        └─ definition 2 ─┴ (rows-2)
//
// Definition 1 adds up the amounts of a key, definition 2 their squares. Definition 2 is an
// application of its own over the same input. A row names its definition. It is checked that in
// each partition one definition answers for all keys at any time: first 1, then 2, then 1 again. A
// definition that begins answers for every key that was served before, once; otherwise the versions
// of a key follow one another. Each partition switches once each way, although commands are killed
// and repeated. An answer to the command can be read if, and only if, the kill came after the end
// of its transaction. The comparison of definitions, and commands that are refused or forced, are
// tested by package projection.
//
// # Copies and evidence
//
// TestConcurrentCopies delivers copies of payments in several partitions and under several keys, to
// instances that come and go. TestEvidenceHasTheTimesOfRecords runs a pipeline and `onceward
// explain` on a real Kafka, whose topics can have the broker's time.
//
// # Negative controls
//
// TestBroken, TestBrokenOnBroker, TestChoiceInMemoryIsFound and TestRedriveMarksStayApart run
// applications and a command that are broken on purpose, in ways in which others were.
// TestBrokenOutcome, TestBrokenLog and TestDamagedAnswersAreFound damage what was written. All of
// it has to be found.
//
// # What it is not
//
// It is no soak and no benchmark, and it does not test the contract of each processor: their
// packages do. It needs the signals of Unix.
package processing
