// Package differential compares the operators of package topology with those of Kafka Streams. A small Java program,
// streams/Differential.java, runs one topology for each operator in Kafka Streams' own test driver; the tests run the same topologies
// with package topologytest on the same records, and want the same outputs: keys, values and headers byte by byte, timestamps, and
// the order within each topic. The package has nothing but these tests.
//
// # The cases
//
// Each operator has random cases, 100 or as many as -cases says, 1,000 in "make verify-differential", and the named ones of
// cases_test.go: records out of order, at the boundary of the grace and on both sides of it, null keys and values, values that become
// and stay tombstones, equal and negative timestamps, keys that change, windows at the epoch. Random cases have all of that too, less
// often; they are made from a seed that -seed sets, and a failure shows the records of its case. Where an operator looks at the wall
// clock, it moves between the records, by the same steps in both drivers.
//
// Both drivers have one partition for each topic, as that of Kafka Streams has no other: what the partitioner does is tested elsewhere.
// A null where our topic allows none dies, and the aggregations of Kafka Streams drop it: what is written is the same.
//
// Headers are compared as well, but not those of windows that close, which differ (below). What any other operator emits has on both sides
// the headers of the record that it has at hand, also where it is made of many; Kafka Streams without a record cache, that is.
//
// How many records were dropped is compared for each case: the metric dropped-records-total of the driver of Kafka Streams, and what we
// count as "late", "null-key", "null-value" and "invalid-timestamp", together with the dead letters, which nothing but nulls and invalid
// timestamps are here. Both count a record once for each window that it is too late for. Where two aggregations read one stream, a null
// is dropped by each there and dies once here, so that operator is left out.
//
// # Descriptions
//
// The Describe of our topologies has the grammar of Kafka Streams' own: one parser reads both, for every operator, and finds the same
// sub-topologies of the same sources with their topics, processors with their stores and sinks with their topics, and the same arrows.
// This is left out of the comparison:
//
//   - Names of nodes and of sub-topologies: positions there, and the user's here. So is the order of nodes and arrows, sorted here.
//   - Processors there that ours are without: the step from a table to a stream (KTABLE-TOSTREAM), the passes behind a split, the filter
//     in front of a repartition topic, the two sides of a table join, whose stores are those of our one processor, and the buffer of a
//     suppression with its store. The store that our windows wait in until they close, <store>-closing, is left out likewise.
//   - The indentation of the line of a sub-topology: all but the first are a blank further left there.
//
// A sink that chooses its topic shows the class that does it there, and here it is a processor with a sink for each of its topics.
//
// # What differs
//
// These differ on purpose, and differences_test.go has a case of each, with what both sides make of it:
//
//   - On stream time the first record of a task fires every punctuation of Kafka Streams, although no time has passed, and the punctuator
//     gets the stream time. Ours fires when a multiple of the interval is passed and gets that multiple, so that its result does not
//     depend on what record came next. The Java program leaves the first firing out and rounds, and then both are the same.
//   - When the wall clock leaps, the driver of Kafka Streams fires a schedule once, and ours as often as it became due on the way. The
//     Java program moves its clock by the millisecond. A runtime of ours that has stalled fires once too.
//   - An invalid timestamp stops a task of Kafka Streams, by default or where there is no time yet to take in its place. Here the record
//     is a dead letter, and the others go on.
//   - In place of an invalid timestamp Kafka Streams takes the largest of the partition, and we that of the task, by which windows close.
//     They are the same where a task reads one topic, as in the cases that are compared.
//   - What a window emits when it closes has headers there: those of the last record in it if it is suppressed, and those of the record
//     that has closed it if it is emitted on close, whatever its key. Here it has none, for it is made of many records.
//   - The first change of an aggregate has the initial one for its old value in Kafka Streams, and none here, where a second aggregation
//     would subtract what nobody has added.
//
// # The control
//
// Topologies that are wrong in one detail, such as a grace that is a millisecond longer, have to be found by the same cases.
//
// # Running it
//
// A JDK, 17 or newer, and Maven are needed, as package cluster says: Maven copies the jars that streams/pom.xml names into the user's cache
// directory once. Without them the tests are skipped, unless ONCEWARD_REQUIRE_KAFKA=1.
package differential
