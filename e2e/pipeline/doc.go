// Package pipeline is one application with all processors, and the proof that whatever happens to it, it comes to the same.
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
// An event is a fact about an account, with an id and a version. The door lets some of them in at a later attempt, through delayed retry
// topics. The inbox lets the first delivery of each id pass, in whatever partition it comes, makes dead letters of those that contradict it,
// and archives what it forgets. The projection accounts brings the facts of an account into the order of their versions, however they
// arrive, and asks the source for those that are missing. The guard lifecycle accepts those that are transitions of the account, and the
// inbox orders those of them that are not the same order under another id. Of these the projection standings has the last one, by two
// definitions of which commands choose one, the ledger balances the amounts, corrections and reversals, the ledger flows the same for
// windows of days, and the effects payouts the calls to a gateway that loses replies and honours no idempotency keys. The effects notices
// are calls to one that cannot even be asked, so that a person finds out what has become of them. Behind all of that the world may be down,
// which parks the account, or closed, which makes a dead letter that an operator redrives. Every decision of every processor is in a topic
// of evidence.
//
// # What is proved
//
// TestMatrix has a test for every row of the failure matrix: crashes at each arrow of the commit, duplicates, re-orderings, gaps, poison, a
// failing dependency, rebalances, replays, a broker that restarts, a zombie, and directories that are lost, damaged or full. After each
// of them all outputs, dead letters, evidence, payments and stores are compared with a recount: a loop over maps that shares no code with the
// processors. The tests are the source, which sends what was lost on its way when it is asked for it, the operator, who switches between
// the definitions, and the person who finds out what nobody knows. At the end of a row the inbox forgets what it has had, the state
// directory is taken away, and what is restored from the changelogs is compared again. TestMatrixOnKafka runs the crash, rebalance and
// replay rows on a real Kafka.
//
// Package simulation runs the pipeline under faults of every kind, with [Surroundings] that need no network. They compare the outputs and
// the payments with the same recount.
//
// TestAnyInterleaving runs random histories in memory (package topologytest), a thousand of them: duplicates, losses, re-orderings,
// contradictions, corrections, poison, failures, restarts, crashes and aborts of the same facts come to what the clean sequence comes to.
// TestI3ReplayConverges replays them, from nothing and over what is kept. A failure names its seed.
//
// The tests named TestBroken are the negative controls: pipelines that are broken on purpose, in ways in which others were, have to be
// found, and so has every damage to an outcome.
//
// # Determinism
//
// No row depends on time. Faults strike at points that the runtime names, and everything else waits for what was fed to have come out. What
// depends on the order in which facts happen to arrive at a task, such as which of them had to wait, is not compared. Of what the source was
// asked for it is compared that nothing is asked for twice, and everything that was lost once; of standings that they were told in order,
// by one definition up to a switch and by the other one from there on.
//
// # What it is not
//
// It is no soak and no benchmark, and it does not look at each processor's own contract: their packages do. It needs the signals of Unix.
package pipeline
