// Package processors holds nothing but its directories: what people build state machines, balances
// and views of, and do not want to write a second time.
//
//   - inbox recognises a record that was there before, by an id that is chosen for its effect.
//   - projection keeps rows that follow the versions of their aggregates; ledger sums up
//     contributions, each once; transition lets an aggregate go only from state to state as
//     declared.
//   - deadletter reads and writes the records that failed; effect keeps the ledger of calls to
//     other systems, which are outside of the exactly-once promise.
//   - envelope names the ids that travel with a record, decision and evidence are for who wants to
//     know why a row is as it is.
//
// What keeps state by key has all records of a key in one task: Build refuses a stream whose key
// was changed since it was partitioned
// ([github.com/onceward/onceward/topology.Stream.Copartitioned]). An inbox that works Globally
// takes any.
//
// They are built on the contracts of package topology, as any user's processor is. REQUIREMENTS.md
// has what is required of them, line by line, with the tests that show it. Its letters and numbers
// are in the names of tests, or in their comments.
package processors
