// Package workload defines the measured workloads: events of one format, the topologies over them,
// and their expected outputs. The throughput and latency tools run them, and so does every
// candidate that is compared with Onceward. Format and rules are small enough to be written in
// another language. The judges ([Ordered], [Shuffled]) accept outputs of any writer.
//
// # Events
//
// Every record of an input has a key of 8 bytes and a value of 100. Integers are big-endian.
//
//	key       the account, a number from 0
//	value
//	 0 .. 15  event id: 16 characters of 0-9 and a-v, so it is bytes and text alike
//	16 .. 23  amount, signed
//	24 .. 31  the producer's clock in nanoseconds since the epoch; it grows from event to event, so it names one, too
//	32 .. 39  counterparty: another account, by which some workloads group
//	40 .. 99  padding that does not compress
//
// The record's timestamp is the clock in milliseconds. A record is in the partition that Kafka's
// default partitioner gives its key. A duplicate is a record with the key and value of an earlier
// one, as a producer's retry makes it.
//
// # Workloads
//
//	name         output                                                                    for each
//	pass         key, value and timestamp as they are                                      record
//	count        account → the number of its records                                       record
//	ledger       account → count and balance, once per event id                            event
//	ledger-bare  the same without an inbox: it is the ledger that finds the duplicates     event
//	ledger-payload  ledger-bare that compares payloads, as the inbox of ledger does        event
//	ledger-evidence  ledger, with every decision of its processors in a topic of its own   event
//	repartition  counterparty → the number of its records, through a repartition topic     record
//	flights      ledger's dedupe, then count and balance per counterparty, through a       event
//	             repartition topic, over the flights of 2013: plane, carrier, delay
//	stream-table   an event and the last row of its key                                   event with a row
//	stream-stream  the two sides of a pair, from 5 s before to 10 s after                 pair
//	foreign-key    a row and the row of another table that it names, through internal     change of either
//	               topics
//	sessions       account → times, count and sum of the session, with a gap of 10 s      record
//	nexmark-q..  queries 0 to 5, 7, 8, 9, 17 and 18 of Nexmark, over its own events
//
// A count is 8 bytes. Count and balance are 32: the count, the balance, 8 zero bytes, and the clock
// of the event that led to it. So a reader of pass, ledger and flights finds the clock at the same
// place as in the event.
//
// Joins and sessions have records of their own, with a side in the value. Both sides are in one
// topic, so they have the same partitions, and the offsets say what a record meets. Event time goes
// its own pace: 10 s from one record of a key to the next, in the mean. One of eight records is up
// to 5 s late, which is within the grace of every window. So no outcome depends on a stream time
// that a task would lose when it moves. An input may span 12 hours of event time, which are 4,320
// records for each key. An output of a join has number and amount of both sides. One of sessions
// has beginning, end, count and sum. A session that became part of another one has no output.
//
// The topologies are what a user would write: the public API, its processors and its defaults, with
// no path of their own.
//
// Nexmark is there for a look at figures that others have published. Its keys say nothing, so each
// query by key has a repartition topic. For a table as a result there is an output for each change.
//
//	query   operators                                     judged
//	q3      join of tables by a foreign key               every row, in any order
//	q4      join of streams, aggregate of a table         every step, and the last mean of a category
//	q5      count in hopping windows, aggregate           every step, and the last result of a window
//	q7      reduce in windows that close, aggregate       every step, and the last result of the windows
//	                                                      that a partition has closed
//	q8      count in tumbling windows, join of streams    every row, in any order
//	q9      join of streams                               every step, and the last bid of an auction
//	q17     statistics in a store                         every step, and the last statistics of a key
//	q18     last bid in a store                           every step, and the last bid of a key
//
// A step is one output compared with the output of its key before. The comments of the functions
// that build the queries say what differs from the SQL.
//
// Windows need an input that lasts longer than it takes to write it. For that, --interval of
// onceward-bench fill sets the time from one event to the next. No record is late in an input that
// lasts less than a day: joins and windows behind a repartition topic have a grace of a day. The
// windows that close are those of one partition of the input.
//
// # Judging
//
// A judge reads an input and its output and recomputes. If a workload keeps the order of a
// partition, each output is compared with the expected next one ([Ordered]). Behind a repartition
// topic, the outputs of a key are those of its records in some order ([Shuffled]): counts go 1, 2,
// 3, no record is doubled or missing, and balances follow from the records.
//
// In a join by a foreign key the last rows meet in every run, and earlier rows in some runs. Each
// output must be of a row and the row that it names. The rows of a key get newer from output to
// output. The last output of each key is that of the last rows.
//
// Evidence is read before the input: what has been decided about says how much of the input was
// processed ([Audit]).
//
// # Concurrency
//
// A [Workload] is a value that can be shared. A generator, and what judges, belong to one goroutine
// each.
package workload
