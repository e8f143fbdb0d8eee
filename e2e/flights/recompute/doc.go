// Package recompute says what the flights pipeline has to write and to keep, given what is in its source
// topic, and how what is there differs.
//
// It is the oracle of the flights scenario, and worth something only as long as it is independent: it
// shares no code with the pipeline. It reads the data file with a parser of its own, has its own
// partitioner, its own decoders of what the pipeline writes, and computes every result in the plainest way
// there is, over all rows in memory. It must never import topology, processors, schemas, state or txn; a
// test sees to that.
//
//	rows, err := recompute.ReadRows(file)
//	inputs, err := recompute.Inputs(rows, malformed, 6) // what the source topic has to hold
//	want := recompute.Compute(inputs, 6)
//	err = want.CheckLatest(records)                     // what is wrong with an output topic
//
// # What is exact
//
// The topics that follow from one source partition each (plane-latest, plane-stale, flights-dead) are known
// to the last record and in their order. The records of by-carrier and carrier-totals come from several
// source partitions, whose interleaving is not known: of by-carrier the set is known, and the order of the
// records of each source partition; of carrier-totals the set of contributions, and that each record has
// the totals of the record before it of the same carrier plus its own contribution, in the order of
// by-carrier.
//
// Every check reports all it finds, shortened to the first few, as one error. A nil error means that
// nothing is missing, nothing is there twice and nothing else is there.
//
// # What it is not
//
// Nothing here talks to a broker. Reading topics and databases, and killing the pipeline, is the scenario's.
package recompute
