// Package graph is the contract between a topology and what runs it. Package topology holds what
// users write and makes a topology.Graph for each task. A runtime (package txn,
// topology/topologytest) drives those graphs. Operators read what a topology is made of and what it
// writes (package txn/admin, the command). The values that pass between them are defined here:
//
//	values                                            from               to
//	TaskID, Input, State                              the runtime        topology.Graph
//	Verdict with Output, OutcomeCount, Failure        topology.Graph     the runtime
//	Parked, GaugeReading                              topology.Graph     the runtime, for metrics
//	Subtopology with Source, StoreInfo, DedupeWindow  topology.Topology  the runtime, before it starts
//	Description, Difference                           topology.Topology  tools and operators
//	Rows, SourceRows                                  topology.Topology  tools and restores
//	DeadLetterInfo and the names of headers           topology.Graph     operators and their programs
//	names of internal topics, [PartitionOf]           this package       clients of the cluster
//
// Users meet four of the types in the functions that they write: [Header], [Failure], [Class] and
// [Action]. Package topology declares these under the same names, so that a program needs no other
// import.
//
// # The contract
//
// The runtime gives the records of a task to its graph one at a time, each as an [Input] with the
// stream time that the runtime keeps. The graph answers with a [Verdict]:
//
//	Action       what the runtime does                                        position   stream time
//	Accept       adds outputs and counts to the round                         moves      moves
//	DeadLetter   adds the dead letter to the round                            moves      stays
//	Park         adds the state writes to the round                           moves      stays
//	Delay        adds the output for the retry topic to the round             moves      stays
//	Retry        gives the record again after Backoff, with the next Attempt  stays      stays
//	Stop         stops the task                                               stays      stays
//
// # Invariants
//
//   - Unless the verdict is Accept, nothing that the record wrote to the [State] is left. A verdict
//     DeadLetter, Park or Delay has only what keeps the record: a dead letter, rows of parked
//     records, a delayed record.
//   - The same inputs over the same state have the same verdicts, as long as the functions of the
//     user are deterministic. The number of partitions of a topic stays the same for as long as a
//     graph lives.
//   - The bytes of an Input are never reused, because the graph keeps them. Outputs and the slices
//     of a Verdict are valid until the next call, with their bytes.
//   - [Failure.Error] and [Failure.Reason] quote nothing of a record. [Failure.Err] may.
//   - Names and formats last: names of topics and headers, the JSON form of a [Description], the
//     text of a TaskID. Data of older builds has them.
//
// # Failure
//
// Nothing here fails on its own. A function that reads text of another program, such as
// [ParseDeadLetter], returns an error that does not quote the text. A record that fails is a
// Verdict, not an error.
//
// # Concurrency
//
// All types are values without locks. A State belongs to the goroutine of its task. [Rows] and
// [SourceRows] are safe for concurrent use.
//
// # What it is not
//
// It computes nothing and runs nothing. Graphs are made by package topology, because they consist
// of the typed functions of the user. Rounds, transactions and offsets belong to package txn.
package graph
