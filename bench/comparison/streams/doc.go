// Package streams runs programs of Kafka Streams beside Onceward's own, for the measurements that
// compare the two. The programs are in the directory java; Maven gets the jars that they need, and
// they are compiled where they are measured. Nothing of it is part of Onceward's binaries.
//
// # Programs
//
//   - StreamsRestore has two key-value stores and restores them (package bench/restoretime).
//   - StreamsWorkload runs one of the workloads of package bench/workload (package bench/comparison).
//
// Each writes a line of JSON to its output once it is running, and ends cleanly when its input
// does, as package bench/measure requires. Its settings for Kafka Streams are a file of properties,
// so that every setting has the name of its documentation.
//
// # Concurrency
//
// Everything here belongs to one goroutine.
package streams
