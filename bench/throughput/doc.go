// Package throughput measures how fast an application gets through an input that is there already,
// and whether its answers are right. It is the library behind `onceward-bench`; a comparison with
// others uses [Watch] and [Check] for all of them.
//
// # Method
//
// [Fill] writes the input. [Run] runs a workload as one application in this process, through the
// public API and with its defaults, until enough records are committed. [Watch] measures from
// outside: it reads only the group's committed offsets from the brokers. So a JVM, a loop over a
// client, and Onceward are measured in the same way, and records that are processed but not
// committed do not count.
//
// The rate that counts is the one of the steady state: from the first look that finds a quarter of
// the records committed to the end. The rate from the start has the start in it: joining the group,
// reading positions, compiling, cold caches.
//
// Behind a repartition topic a record is done when what became of it is committed, too: the end is
// when the group has also committed what the repartition topics held when the input was through.
//
// # Correctness
//
// [Check] reads input and output afterwards, outside of the measured time, and recomputes (package
// workload). [Run] compares the state with that, too, row by row. A wrong answer is [ErrWrong],
// however fast it was.
//
// # Limits
//
// Looks at the offsets are 20 ms apart and commits up to 100 ms, so times are good to about a tenth
// of a second: measure ten seconds at least. Processor time and memory are those of the process, in
// which Run's clients for watching run, too; their cost is 50 requests a second.
//
// # Concurrency
//
// Every function runs in its caller's goroutine until it returns, and leaves nothing running.
package throughput
