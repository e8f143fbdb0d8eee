// Package onceward is exactly-once stream processing on Kafka for Go: a library, and a command of
// the same name.
//
// A topology consumes topics, keeps state per partition in Pebble backed by compacted changelog
// topics, and produces topics. Input offsets, output records, changelog records and dead letters
// commit in one Kafka transaction, and local state never holds a write that is not committed, so
// that a crash costs the replay of a tail and not the state.
//
// The packages, in the order in which to read them:
//
//   - [github.com/onceward/onceward/topology]: what to compute, as typed streams, processors and
//     stores;
//   - [github.com/onceward/onceward/topology/graph]: the contract between a topology and a runtime;
//   - [github.com/onceward/onceward/topology/topologytest]: running a topology in a test, without a
//     broker;
//   - [github.com/onceward/onceward/processors/inbox], projection, ledger, transition, effect and
//     deadletter: what business pipelines need, ready made; evidence writes down what they decide;
//   - [github.com/onceward/onceward/txn]: running a topology exactly once;
//   - [github.com/onceward/onceward/schemas]: codecs; [github.com/onceward/onceward/schemas/avro]
//     adds Avro;
//   - [github.com/onceward/onceward/state]: stores and the task database.
//
// This package itself has [Run], the main function of a program with one topology, and an example.
package onceward
