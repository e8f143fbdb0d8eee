// Package broker is the only place where the runtime talks to Kafka. It turns franz-go clients into
// the four things that the commit protocol needs, and broker answers into a closed set of outcomes:
//
//   - [Cluster]: metadata, offsets, raw fetches, one plain client;
//   - [Group]: the one group member of a process, from which records are polled;
//   - [Producer]: the transactional producer of a committer;
//   - [Coordinator]: where the group's offset commits go.
//
// Beside them stand [Fetcher], by which restores read many changelogs at a time, and [Starts],
// where inputs without a commit begin.
//
// # Outcomes
//
// Only an answer that says so is a success. The meaning of a failure depends on how far the round
// was. Before the commit was sent, every failure ends in an abort. After it, everything but success
// is in doubt (package protocol). [Outcome] therefore has no "retry". Requests are repeated that
// change nothing (metadata, offset fetch, raw fetch), and those that brokers tell from the first
// try: InitProducerID, EndTxn, and Produce, of which package produce has the rules. TxnOffsetCommit
// is sent once.
//
// # Concurrency
//
// Cluster, Coordinator and Group are safe for concurrent use. A Producer belongs to one goroutine.
package broker
