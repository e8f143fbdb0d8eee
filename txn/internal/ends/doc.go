// Package ends lists where the input partitions of a session end, and reports for which open
// transactions the tasks wait.
//
// # Contract
//
// [Watch.Run] lists the ends of all inputs every few seconds; [Watch.Ends] returns the last
// listing, for the lag. A listing that is too old is not shown: no lag is better than a wrong one.
// An input whose last stable offset stays below the high watermark from one listing to the next is
// held by a transaction, and package waits reports it.
//
// # Concurrency
//
// Run has two goroutines: one lists, one looks for what holds an input, which can take long. Ends
// may be called from any goroutine.
//
// # What it is not
//
// It is not on a record's way: fetches do not use it.
package ends
