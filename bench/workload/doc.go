// Package workload is what is measured: events of one format, the topologies over them, and what
// their outputs have to be. The throughput and latency tools run it, and so does whoever is
// compared with Onceward: the format and the rules are small enough to be written down again in
// another language, and the judges ([Ordered], [Shuffled]) do not care who wrote an output.
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
//	ledger-evidence  ledger, with every decision of its processors in a topic of its own   event
//	repartition  counterparty → the number of its records, through a repartition topic     record
//	flights      ledger's dedupe, then count and balance per counterparty, through a       event
//	             repartition topic, over the flights of 2013: plane, carrier, delay
//	nexmark-q..  queries 0, 1, 2, 17 and 18 of Nexmark, over its own events
//
// A count is 8 bytes. Count and balance are 32: the count, the balance, 8 zero bytes, and the clock
// of the event that led to it. So a reader of pass, ledger and flights finds the clock at the same
// place as in the event.
//
// The topologies are what a user would write: the public API, its processors and its defaults, with
// no path of their own.
//
// Nexmark is there for a look at figures that others have published. Its keys say nothing, so each
// query by key has a repartition topic, and for a table as a result there is an output for each
// change; queries with windows wait for the operators.
//
// # Judging
//
// A judge reads an input and its output and recomputes. Where a workload keeps the order of a
// partition, each output is compared with the one that has to be next ([Ordered]); behind a
// repartition topic, the outputs of a key are those of its records in some order ([Shuffled]):
// counts go 1, 2, 3, no record is there twice, none is missing, and balances follow from what the
// records say.
//
// Evidence is read before the input: what has been decided about says how much of the input was
// processed ([Audit]).
//
// # Concurrency
//
// A [Workload] is a value that can be shared. A generator, and what judges, belong to one goroutine
// each.
package workload
