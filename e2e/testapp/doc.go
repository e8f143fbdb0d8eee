// Package testapp has applications that tests run under faults. It also has the means to judge
// them: their inputs, readers of their topics, and dumps of their stores, all recorded as a history
// for package check.
//
// Every output record is a JSON document with the id of the input that it comes from, so that
// package check can follow each input through the application. [Accounts] has everything that has
// to be right together: an inbox, a ledger, a copy, dead letters, and a repartitioning with a store
// behind it. [Parts] leaves parts out.
//
//	in ─► parse ─┬► inbox ─┬ accepted ─┬► ledger ─► balances
//	             │         │           └► by-other (repartition) ─► counts (store) ─► counts
//	             │         └ duplicates ─► repeated
//	             └► strict (poison fails here, after all of the above) ─► copied
//
// [NewCopy] is the last line alone, with a pace.
//
// [Program] runs an instance of either application, and [Process] is such an instance in a process
// of its own, which a test kills, freezes and starts again. [LastCounts] judges the output of an
// application of the test that counts records.
//
// A [Recorder], a [Reader] and a [Feeder] may run in goroutines of their own. They do not know
// which brokers they talk to: their clients get their options from the caller. Only [Flags] name
// brokers.
package testapp
