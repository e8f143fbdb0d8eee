// Package worker runs the tasks that a worker owns: it computes rounds and carries them through the
// commit protocol.
//
// # Goroutines
//
// A [Worker] has three goroutines. The compute goroutine ([Worker.Run]) owns the tasks, the open
// round and the protocol state; it is the only one that calls protocol.Step. Each of the two
// committers owns one transactional producer. It carries out the effects that concern its rounds,
// one after the other, and answers by events. While the goroutine of a committer flushes, commits
// and applies the front round, the compute goroutine works on the back round.
//
// # What crosses over
//
// A sealed round belongs to its committer from the Flush effect until the answer to its last
// effect: the compute goroutine reads the frozen layers and nothing else of it. Outputs are encoded
// by the compute goroutine when their record joins the round, and handed over in batches, which are
// never shared. Their memory is used again once the round is committed.
//
// # Cadence
//
// A round is due when there is nothing more to process and the last seal is at least the minimum
// interval ago (the smoothed commit time, at least 5 ms). It is due at the latest after the maximum
// interval, or when its output and writes reach the byte bound. A round that would send no record
// is held back, at most 10 s, and then carries one filler record, because a transaction without a
// record never ends at the broker. A task that waits for a retry never waits inside an open
// transaction: the round so far is committed first.
package worker
