// Package processors holds nothing but its directories: what people build state machines, balances
// and views of, and do not want to write a second time.
//
//   - inbox recognises a record that was there before, by an id that is chosen for its effect.
//   - projection keeps rows that follow the versions of their aggregates; ledger sums up
//     contributions, each once; transition lets an aggregate go only from state to state as
//     declared.
//   - deadletter reads and writes the records that failed; effect keeps the ledger of calls to
//     other systems, which are outside of the exactly-once promise.
//   - envelope names the ids that travel with a record; decision and evidence show why a row is as
//     it is.
//
// Processors that keep state by key need all records of a key in one task. Build refuses a stream
// whose key was changed since it was partitioned. The method
// [github.com/onceward/onceward/topology.Stream.Copartitioned] says that it is partitioned all the
// same. An inbox with the option Globally accepts any stream.
//
// Processors use only the contracts of package topology, as processors of users do. REQUIREMENTS.md
// lists the requirements line by line, with their tests. The comments of the tests name the
// requirements.
package processors
