// Package purge deletes records that no task needs any more, of repartition topics and of
// changelogs.
//
// # Contract
//
// A [Purger] works for the tasks of one session, on one goroutine, every [Interval].
//
// Of a repartition topic it deletes the records that the tasks of this process have read: no other
// process reads them, and the topic keeps everything (protocol rule 11.3). Only offsets of applied
// rounds count, and only at the turn after, for a task that has been owned ever since. The lag
// leaves room for a look at what was processed last. The deletion is a request to a
// broker outside of any transaction. That is safe because a committed offset never goes back,
// unless an operator moves it; then the task stops with an offset out of range instead of leaving
// records out.
//
// Of the changelog of a store with a retention it deletes the records that have expired by the
// stream time of the store (rule 7.5).
//
// # Failure
//
// A request that fails is logged. The topic keeps growing until a later turn succeeds.
//
// # What it is not
//
// It does not compact, and it touches no topic of the user.
package purge
