// Package topologytest runs a whole topology in memory, for tests of the people who write
// topologies.
//
// A [Driver] has all tasks of all subtopologies, every topic, repartition topics included, and
// every store. Piping a record runs everything that follows from it before the call returns, on the
// caller's goroutine, so that a test has nothing to wait for. In a test it is a [Test], which fails
// what goes wrong:
//
//	d := topologytest.Start(t, orders.Topology())
//	placed, totals := topologytest.In(d, Placed), topologytest.Out(d, Totals)
//
//	placed.Pipe("anna", Order{Amount: 3})
//	placed.Pipe("anna", Order{Amount: 4}, topologytest.At(noon))
//	totals.Want(topologytest.KV("anna", 3), topologytest.KV("anna", 7))
//
//	d.Advance(time.Hour)           // punctuations by the wall clock
//	d.WantCount("totals", "late", 0)
//	d.WantDead()                   // no dead letter
//
// [New], [Pipe] and [Output] do the same with errors, for programs that are no tests.
//
// The driver runs the same graph as the runtime and acts on its verdicts: a failed record leaves
// nothing behind but its dead letter, a retry happens at once (the driver's clock moves on by the
// pause), and a stop is an error of Pipe. [Driver.Restart] makes all graphs anew over the same
// stores, which shows state that a handler keeps where it must not.
//
// Each record is committed at once, unless the test makes the commits itself. Then it can have a
// crash, or the end of a transaction that the cluster did not take, come at any place, and see that
// nothing remains of what is undone and that it comes again once:
//
//	d := topologytest.Start(t, orders.Topology(), topologytest.CommitByHand())
//	...
//	placed.Pipe("anna", Order{Amount: 3})
//	d.Commit()                     // commits
//	placed.Pipe("anna", Order{Amount: 4})
//	d.Crash()                      // undoes the second record, and processes it again
//	d.Commit()
//	totals.Want(topologytest.KV("anna", 3), topologytest.KV("anna", 7))
//
// A record that is written to the topic of a global table, by Pipe or by the topology, is a row for
// all tasks at once. Partition 0 of its store has all rows. No commit names them, so that a crash
// takes none of them back. A record that makes no row is counted as "skipped" of the store.
//
// There are two clocks, as in a runtime. Stream time moves with the records, task by task, and
// schedules on stream time fire with them. The wall clock moves with [Driver.Advance]; schedules of
// the wall clock fire there.
//
// Everything is deterministic: tasks run in the order of their names, records of several topics of
// one task in the order of their timestamps, or of their event times, and the clock moves only with
// the records, with retries and with Advance. At least 300,000 records/s are to go through a
// filter, a node with a store and a map, so that tests can try many thousands of cases:
// BenchmarkDriver measures it, and make bench-compare shows it beside that target.
//
// What it does not do: there are no changelogs, no rebalances and no parallelism, a transaction is
// one for all tasks, and it ends where the test says, between two units of work. What the cluster
// and the disk add is tested with the runtime itself.
//
// A Driver is not safe for concurrent use. It starts no goroutine and needs no closing.
package topologytest
