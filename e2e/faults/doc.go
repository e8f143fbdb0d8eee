// Package faults makes the runtime fail at every point, loses and delays every request and reply,
// and kills restores, and looks for the damage.
//
// On virtual time (package virtual) each cell of a table has brokers of its own, the timeouts of
// production, and an application on a host of its own, which is cut off, stalled or copied as
// package instance does it. On real Kafka all cells share a broker, timeouts are short, and what is
// killed or frozen is a process: [instance.Application], in the test binary. On real Kafka only
// those cells run in which a real coordinator, its markers or its compaction can make a difference,
// with -short those of the commit only. On virtual time TestEveryPoint runs all cells, with -short
// every kill and two of five other cells, and under the race detector every fifth cell.
//
// # Points
//
// A cell of the crash matrix is a failpoint and an action of package instance. The application
// counts the records of each key and, through a repartition topic, of each group of keys: two
// subtopologies, two stores, dead letters and a topic that is purged.
//
//	life 0   without failpoints: some records, an orderly end. Left out where the first round ever is meant.
//	life 1   with the point armed, fed until the point is hit. After a kill it is gone. After an error, a delay or a hanging goroutine it
//	         works on, or ends with an error where the table says so. A frozen one is thawed once another instance has taken the tasks and
//	         caught up: then it is a zombie, and has to get back to work.
//	life 2   the same identity and directory again, or after some kills another instance with an empty directory. It finishes.
//	life 3   the first identity with an empty directory: everything is restored from the changelogs.
//
// Variants of cells are what protocol rules ask for: the first life ever, a takeover, another
// number of workers, rounds in doubt that were committed and that were not, rounds without
// changelog records, and an application that is frozen only until its tasks have another owner, so
// that it can still commit. Tests of their own have tasks come back to a member, two processes with
// one identity or one directory, and a member that is frozen inside a rebalance.
//
// Every output names the input that it was made of and its number in the sequence of its key. The
// outputs of a key must be the fold of its inputs, record for record; those of a group must contain
// each input once, in the order of each key; each poisoned record must have one dead letter and no
// other trace; the stores at the end of life 2 and of life 3 must be the fold of the inputs; no
// transaction may be left open. So anything that is lost, doubled, torn or reordered shows. The
// tests of the check break the application on purpose.
//
// In an application with points armed databases go to the disk after every few rounds: what a kill
// leaves behind is some prefix of what was applied, and not always nothing.
//
// # Requests and replies
//
// A cell is a kind of request and a fault. The first half of the same application runs behind a
// link, which drops, delays or cuts a single frame, and then every frame for a while. On real Kafka
// the link is a proxy (package proxy). The kinds are those that a round, its resolution and a
// membership consist of. The end is checked as above. On virtual time the test also checks how long
// the round that was struck stays in doubt. Other tests fail the whole network, and have commits
// arrive when their transaction is over or their task has moved. The negative control of these
// shows the anomaly on a real broker with the older transaction protocol.
//
// # Restores
//
// An application with larger state is killed at every point of a restore, again and again on one
// directory: on virtual time after any number of frames, on real Kafka at each failpoint. Other
// restores meet an open transaction of another producer, changelogs that were compacted meanwhile,
// an older copy of the directory, and a directory that is read-only; and a table is restored from
// its own topic, which was compacted.
//
// # What a test proves
//
// A cell whose point was not hit, or whose rule has matched no frame, fails. A point or a kind of
// request without cells, a row without a point, and a combination that is neither run nor listed
// with its reason fail too.
//
// # What it is not
//
// It is no soak: one fault a life, small inputs; packages simulation and soak have many. It
// measures nothing. Processes need Unix signals.
package faults
