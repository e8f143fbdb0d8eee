// Package peers compares Onceward with what else one could run: Kafka Streams, at its defaults and
// tuned, and a plain loop over franz-go's GroupTransactSession. All of them work on one real
// broker, on the same input, in turns. It is the library behind the tool in the directory run.
//
// # Candidates
//
//   - onceward: the workload through the public API, at the defaults of txn.Config.
//   - streams: Kafka Streams with exactly_once_v2 and nothing else set. Its commit interval is then
//     100 ms, as Onceward's longest is.
//   - streams tuned: with the settings that [Sweep] found to be the fastest of more than a dozen.
//     They are chosen for each workload, and kept in sweep.json, which is part of this package:
//     finding them takes longer than using them. A workload that no sweep was made for has those of
//     another one, and the report says so.
//   - streams small: tuned, with the smallest heap that costs it under 5 % of its rate. It is there
//     for the comparison of memory.
//   - loop: what a team without a runtime would write to copy records. It is there for pass alone,
//     because everything else needs state.
//
// Kafka Streams has less to do in the workloads with dedupe: its inbox keeps a timestamp of each
// id, Onceward's also the hash of the payload, by which it tells a duplicate from a conflict. Its
// state is in RocksDB in every workload. Nobody is told how to compress what it writes, but the
// loop, which does not.
//
// # Rules
//
// Each run is a process of its own, on an output topic of its own, which are all alike; both are
// gone after it, and so are the changelogs: nobody works on what another one has left. The input is
// written once, not compressed, and is the same topic for all. Times are taken from outside and
// alike (throughput.Watch): committed offsets, the steady state from a quarter of the records on.
// So neither the start of a JVM nor its warm-up is in a rate. After each run the output is
// recomputed from the input (throughput.Check), and the stores are compared with what they have to
// hold. A wrong answer ends the measurement: there is no figure for it.
//
// The candidates take turns, in every round in another order of who begins. Every run is printed.
// Ratios are of runs of one round, so that what slows the machine down slows both.
//
// Processor time is that of the steady state, of the application and of the broker apart, by a
// million records. The broker's is only known where its process is ([Config.BrokerPID]).
//
// # What else is measured
//
// [Measure] also takes latency at a steady rate, restarts after kill -9 and takeovers under load,
// against Kafka Streams; and of Onceward alone what more partitions, more keys, other keys, more
// state and a second process do. The full restore is that of package restore.
//
// # Parts
//
// All of it takes some hours. It is made of parts: the workloads, latency, recovery, restore and
// scaling. Each is complete in itself, for what is compared with each other is measured in one go;
// so some can be measured anew ([Config.Select]), and the report keeps the others of the result
// that is there ([Result.With]). It says of each part when, by which command, on which commit and
// with what it was measured. Before the first part Onceward works through an input that is not
// counted, because a broker that has just started is slow.
//
// # What it is not
//
// Broker and candidates share a machine, so a rate is what is left of it. A cluster of its own
// would leave the application more, and the ratios would be others.
//
// # Concurrency
//
// Everything here belongs to one goroutine. The processes that are started end with it, and with
// its context.
package peers
