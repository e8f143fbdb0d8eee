// Package report carries what an instance says of itself to the other instances of its application,
// for the console. One instance asks the others, so that a browser has to reach one only.
//
// # Contract
//
// [Handler] serves the [Report] of this instance as one JSON document. [Fetch] reads the report of
// another one. [Instances.Ask] returns an [Instance] for each that the plan of the group names, and
// for those that have left it in the last ten minutes.
//
// # Bounds
//
//   - Ask waits at most 700 ms for all instances together, and not at all for those that are away.
//     So a frozen instance does not hold up the page.
//   - An instance is away if its last question has failed, or if it has not answered for two
//     seconds. Its last report is kept.
//   - A question ends after five seconds. One is under way to an instance at a time, however often
//     Ask is called, and an answer of the last second is not asked for again.
//   - A report has at most 8 MiB. At most 64 instances that have left are remembered, without their
//     reports.
//
// # Concurrency
//
// [Instances] may be used by any number of goroutines. Each question is a goroutine, which Close
// ends and waits for.
//
// # Failure
//
// Every error of a question makes the instance away, and is its reason. A report that this build
// cannot read is such an error. Nothing is tried again before the next call of Ask.
package report
