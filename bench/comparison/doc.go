// Package comparison compares Onceward with what else one could run: Kafka Streams, at its defaults
// and tuned, and a plain loop over franz-go's GroupTransactSession. All of them work on one real
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
// Kafka Streams has less work in the workloads with dedupe. Its inbox keeps a timestamp of each id;
// the inbox of Onceward also keeps the hash of the payload, which tells a duplicate from a
// conflict. Its state is in RocksDB in every workload. In the joins and in the sessions both have
// the same windows and grace periods. The caches of its DSL are off where they would keep outputs
// back: in counts, in sessions and in the tables of a join by a foreign key. All candidates have
// the default compression, except the loop, which does not compress.
//
// # Rules
//
// Each run is another process with its own output topic; all output topics are alike. Topic and
// changelogs are deleted after the run, so no run sees data of another one. The input is written
// once, not compressed, and is the same topic for all. Times are measured from outside in the same
// way (throughput.Watch): committed offsets, the steady state from a quarter of the records on. So
// neither the start of a JVM nor its warm-up is in a rate. After each run the output is recomputed
// from the input (throughput.Check). The stores of counts, balances and ids are compared with the
// expected ones. A wrong result ends the measurement without a figure.
//
// A run ends when its input is committed. Behind repartition topics, and the topics of a join by a
// foreign key, it ends with the last output. Onceward commits records that have led to nothing up
// to ten seconds later, and Kafka Streams at its next commit.
//
// The candidates take turns, in every round in another order. Every run is printed. Ratios are of
// runs of one round, so that a slow phase of the machine slows both.
//
// Processor time is that of the steady state, of the application and of the broker apart, by a
// million records. The broker's is only known where its process is ([Config.BrokerPID]).
//
// # What else is measured
//
// [Measure] also takes latency at a steady rate, restarts after kill -9 and takeovers under load,
// against Kafka Streams. For Onceward alone it varies the numbers of partitions, keys and
// processes, the distribution of keys, and the size of the state. The full restore is that of
// package restoretime.
//
// # Parts
//
// All of it takes some hours, in parts: the workloads, latency, recovery, restore and scaling. Each
// part is complete, because figures that are compared must come from one measurement. So single
// parts can be measured again ([Config.Select]), and the report keeps the others of the existing
// result ([Result.With]). For each part it says when, by which command, on which commit and with
// which versions it was measured. Before the first part Onceward works through an input that is not
// counted, because a new broker is slow.
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
package comparison
