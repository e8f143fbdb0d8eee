// Package latency measures how long a record takes from the moment it should be sent until a
// read_committed reader has it, and what kills and restarts do to that. It is the library behind
// `onceward-bench latency`; the end-to-end figures use it too.
//
// # Method
//
// A [Producer] sends events at a fixed rate and never waits for anything behind it: each event has
// a due time in the [Schedule], and latencies count from the due time. A system that stalls is
// charged for every event that should have been sent meanwhile (no coordinated omission). A
// [Reader] notes for every event when it came back, so percentiles are exact, not estimated from
// buckets, and a lost or doubled event is found. Both are in this process and use one monotonic
// clock. The application is one or more [Instance] processes of their own, so that a kill is a kill
// and a profile shows the application alone.
//
// # Workload
//
// The workload is one of package workload, by default the ledger: dedupe by event id, then a
// posting per account. Each event leads to one output with the event's clock. The clock is the time
// at which the event was due, and so it names the event. Every event is new, so stores grow with
// every event. The application may be of any kind ([Config].External): only its output is read.
//
// # What the figures contain
//
// The producer sends the due events once a millisecond, so half a millisecond of every latency is
// the producer's own. The reader asks for any amount of data at once (fetch.min.bytes 1). The
// time of producing, that is until the broker has acknowledged an event, is reported apart: it is a
// part of the latency that the application cannot change.
//
// # Concurrency
//
// Producer, Reader and Instance belong to one goroutine each; the Reader's questions may be asked
// from any goroutine while it runs.
package latency
