// Package simulation runs whole applications on virtual time, under faults that a seed chooses, and
// judges what they leave.
//
// # What it is for
//
// A run ([Run]) is a few minutes of virtual time in less than a second of real time. It has one to
// three instances of an application, with the real txn and real databases of Pebble on real files.
// It has embedded brokers on a network of package virtual, a feeder, observers of the topics, and a
// nemesis. The nemesis
//
//   - kills instances: while they process, while they stop, and at failpoints; freezes them; stops
//     them in order;
//   - takes their state directories away and fills their disks;
//   - cuts and blocks their connections, and loses and delays requests and replies by API key;
//   - separates instances that watch each other, in one direction or both, once or again and again;
//   - has one instance, or all others, fence one that lives; kills an instance and one that fences
//     it; delays the removal of members;
//   - makes brokers unreachable, delays the markers of commits, and moves leaders and coordinators.
//
// The nemesis of package soak differs: it acts on processes and a broker in real time, with a
// goroutine for each fault. This one acts in one goroutine, with a timer queue in virtual time.
// They share no code.
//
// At the end all faults are healed and the application has to work off its input, with every task
// at exactly one instance. Package check judges the history that the observers have recorded, with
// the content of databases at the end and after kills. The run itself judges purges: none may reach
// beyond a committed position, but in the changelogs of stores whose rows expire during a run. And
// it judges standbys: each is at a commit. A [Subject] may add a judgement of its own.
//
// # Subjects
//
//   - [Copy], [Ledger], [Repartition], [Accounts]: the applications of package testapp. Package
//     check follows each input.
//   - [Tables]: two tables, one of them in memory, and their joins. A joined record is a path
//     through the versions of both inputs.
//   - [Links]: two joins by a foreign key, whose records go through internal topics and back. They
//     end as the join of both inputs, and no two versions meet twice.
//   - [Joins]: all joins in one topology: those of [Tables] and [Links], of a stream with a table
//     and with a global table, and of two streams. Records of two streams meet exactly once, and
//     those that meet none have their result.
//   - [Windows]: sums in windows, written when a window closes. They are computed again from the
//     inputs in the order of the log.
//   - [AllWindows]: windows of all kinds in one topology, written with each update, when they
//     close, and after a suppression. All are computed again.
//   - [Processors]: all processors, with the source, the providers and the people around them.
//     Package pipeline recounts them.
//
// The outputs of the last six are computed from their committed inputs, without package topology
// and the processors. Package check compares the bytes of their databases with the changelogs.
//
// # Seeds
//
// One seed names a schedule: the faults, their times and victims, the latency of every frame, the
// inputs. It does not replay bit for bit, because goroutines, select and maps are free. A failed
// run prints its seed, its faults, what was found, and the end of the trace: which host sent what
// to which broker, what was lost, who was killed. Repeat a seed with
//
//	go test -tags synctests,onceward_failpoints ./e2e/simulation -run TestSeeds -seed 17 -tries 20
//
// # A kill
//
// A killed instance first loses the network. The seed decides whether its sent data arrives. When
// all goroutines wait, the state directory is copied; the next incarnation begins on the copy. The
// killed application may still work, but reaches neither a broker nor the next directory.
//
// # Broken builds
//
// With [Config].Broken a mechanism of the runtime does not work. A simulation that does not find it
// proves nothing, so the tests run apply, offsets, uncommitted, early, restore, copies, identity,
// removal and dedupe (negative controls). Removal costs a rebalance and loses nothing, so the run
// judges it by [Config].Removals. Other mechanisms have theirs where a test is about them: age,
// globals-first and globals-position in package txn, marks-late and marks-early in package
// e2e/processing.
//
// # What it does not do
//
// A kill copies the files when every goroutine waits, so that a file operation is never
// interrupted: the crash tests of state/pebblestore do that. Disks are not slow: a wait inside the
// file system holds mutexes of Pebble, and a goroutine that waits for a mutex stops virtual time. A
// broker that is away loses its connections, and its timers go on. Aborts are not delayed.
//
// # What only real Kafka can show
//
//   - the order of markers and of records in __consumer_offsets: kfake applies the positions of a
//     transaction when it ends;
//   - transactions in PrepareCommit over a broker's restart, hanging transactions, replication, log
//     truncation;
//   - compaction and retention while a restore reads;
//   - throttling, limits of metadata and of requests, versions of brokers.
//
// The tests that need these run on real Kafka: `make test-kafka`.
package simulation
