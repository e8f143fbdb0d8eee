// Package topologytest runs a whole topology in memory, for tests of the people who write topologies.
//
// A [Driver] has all tasks of all subtopologies, every topic, repartition topics included, and every store.
// Piping a record runs everything that follows from it before the call returns, on the caller's goroutine,
// so that a test has nothing to wait for:
//
//	d, err := topologytest.New(t)
//	err = topologytest.Pipe(d, Events, "key", event)
//	balances, err := topologytest.Output(d, Balances)
//
// The driver runs the same graph as the runtime and acts on its verdicts: a failed record leaves nothing
// behind but its dead letter, a retry happens at once (the driver's clock moves on by the pause), and a
// stop is an error of Pipe. [Driver.Restart] makes all graphs anew over the same stores, which shows state
// that a handler keeps where it must not.
//
// Schedules on stream time fire with the records, those of the wall clock with [Driver.Advance].
//
// Everything is deterministic: tasks run in the order of their names, records of several topics of one task
// in the order of their timestamps, and the clock moves only with the records, with retries and with
// Advance.
//
// What it does not do: there are no transactions, no changelogs, no rebalances and no parallelism. What
// they add is tested with the runtime itself.
//
// A Driver is not safe for concurrent use. It starts no goroutine and needs no closing.
package topologytest
