// Package topologytest runs a whole topology in memory, for tests of topologies.
//
// A [Driver] has all tasks of all subtopologies, every topic, repartition topics included, and
// every store. Pipe writes a record and runs everything that follows from it before it returns, on
// the caller's goroutine. So a test waits for nothing. A [Test] is a driver that fails the test on
// an error:
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
// [New], [Pipe] and [Output] do the same with errors, for other programs.
//
// The driver runs the same graph as the runtime and follows its verdicts. A failed record leaves
// only its dead letter. Lent keys and values (schemas.Lender) are overwritten after each record,
// and a function that changes one stops the task. A retry happens at once; the clock of the driver
// advances by the pause. A stop is an error of Pipe. [Driver.Restart] makes new graphs over the
// same stores. That reveals handlers that keep state outside of stores.
//
// Each record is committed at once, unless the test commits by itself. Then the test can place a
// crash, or a failed transaction, anywhere. It can check that undone work leaves nothing and is
// done again once:
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
// A record that Pipe or the topology writes to the topic of a global table is a row for all tasks
// at once. Partition 0 of its store has all rows. No commit contains them, so a crash undoes none.
// A record that makes no row is counted as "skipped" of the store.
//
// A source by pattern reads the matching topics that [TopicPartitions] names, and later those of
// [Driver.CreateTopic].
//
// There are two clocks, as in a runtime. Stream time moves with the records of each task, and
// schedules on stream time fire with them. The wall clock moves with [Driver.Advance]; wall-clock
// schedules fire there.
//
// Everything is deterministic:
//   - Tasks run in the order of their names.
//   - Records of several topics of one task come in the order of their timestamps or event times.
//   - The clock moves only with records, retries and Advance.
//
// A driver is fast, so that tests can try thousands of cases. The target is 300,000 records/s
// through a filter, a node with a store and a map. BenchmarkDriver measures it, and make
// bench-compare shows it beside the target.
//
// The driver has no changelogs, no rebalances and no parallelism. One transaction covers all tasks
// and ends where the test says, between two units of work. Tests of the runtime cover the cluster
// and the disk.
//
// A Driver is not safe for concurrent use. It starts no goroutine and needs no closing.
package topologytest
