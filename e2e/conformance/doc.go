// Package conformance compares Onceward with Apache Kafka: it runs Kafka's system tests, and the
// same topologies in Kafka Streams and here. The package has only tests.
//
// # StreamsEosTest
//
// Generator and verifier are those of Kafka's system test for exactly-once processing, unchanged
// from its jar. The application between them, a Kafka Streams program in Kafka's test, is ours. The
// generator writes about 200 records a second to a topic of five partitions, with 20,000 keys.
// Three instances of the application share the partitions. Each is a process with a session timeout
// of 10 s. The instances take turns; each one is
//
//   - killed, and started again once the others have taken over its tasks,
//   - killed, and started again at once, under the same name and with the same state directory,
//   - stopped by SIGTERM, which must end in a clean stop, and started again after the takeover.
//
// SIGKILL always strikes while the broker lists an open transaction of that instance. The test
// waits until all running instances run all their tasks and have processed more, and until every
// input from before the kill is committed in every partition. At the end the generator is stopped,
// the rest is processed, and all instances are stopped cleanly. The test has two variants: simple
// has two aggregates of the input; complex also copies the input to another topic, which the same
// application reads for two more.
//
// The verifier reads committed records only. It requires that
//
//   - no transaction is open, and the group is empty,
//   - the copies are the inputs, in the same partitions and order,
//   - each aggregate has one result for every input, in order, with the right value at that place.
//
// The test passes if the verifier prints ALL-RECORDS-DELIVERED at its end; its exit code says
// nothing. The test itself checks two things that the verifier does not: all generated records are
// committed, and no output topic misses records at its end. The verifier hardly checks state: a
// lost store write is visible only when its key comes again. In a short run few keys do.
//
// The negative control runs over the same input. An application copies some inputs twice, omits
// some, or loses some sums. The part of the verifier that checks this has to refuse it.
//
// # StreamsSmokeTest
//
// In the same way this test of Kafka checks windows, final results, tables and joins. The generator
// writes 20 keys with 1,000 values each for about a minute and a half, with times of two days ago.
// Then it writes a record with the present time to each partition, which closes all windows.
// Meanwhile three instances of the application join one after the other. They are killed, come back
// after the takeover or at once, leave cleanly and join again. On a slow machine the generator can
// end before the last kill. That is no failure: the log has the number of records after the kill.
//
// The verifier requires that
//
//   - no transaction is open,
//   - every key has the right last result in each of the topics min, max, sum, cnt, dif, avg and
//     tagg,
//   - no window has two final results in min-suppressed and sws-suppressed.
//
// The test passes if the verifier prints SUCCESS and ALL-RECORDS-DELIVERED. The verifier does not
// fail for records that echo has twice, so it must not print PROCESSED-MORE-THAN-GENERATED either.
// It does not check the windows of two seconds in sws-suppressed and their sums; the test itself
// does.
//
// Each negative control is an application with one mistake. For all but one of them the verifier
// waits two to six minutes. Windows of days end at midnight, UTC: a run that would cross midnight
// first waits for it. Kafka's command has fixed numbers. So java/ShortRun.java calls the same
// generator and verifier with other numbers.
//
// # The copy test of TransactionsTest
//
// It has the requirements for a transactional client of Kafka's system test TransactionsTest
// (tests/kafkatest/tests/core/transactions_test.py). Records are copied from one topic to another
// in transactions of 750. Meanwhile the client or the broker is killed again and again, and a
// read_committed reader follows. Afterwards no record may be missing, doubled or out of order, for
// the reader that followed and for a later one. The differences:
//
//   - One broker is killed three times, where Kafka's test bounces three brokers in turn:
//     replication is not a promise of Onceward. The controller is a process of its own that stays
//     up. Without it, Kafka 4.3.1 loses markers.
//   - Client and broker are killed in turn in the same copy. The client is killed while the broker
//     lists an open transaction of it.
//   - Order is checked with several partitions too: within each pair of input and output partition.
//   - Package check judges the history, so that a torn transaction is found as well.
//
// # Layouts of changelogs
//
// An application fills a store of each kind that Kafka Streams has too. java/StreamsRead.java makes
// Kafka Streams restore its stores from those changelogs and prints their content. It is the same
// if the changelogs have the layouts of Kafka Streams (state/FORMAT.md, Rows). A changelog with
// start and end of its sessions swapped is the negative control.
//
// # Operators beside those of Kafka Streams
//
// java/Differential.java runs one topology for each operator in Kafka Streams' own test driver; the
// tests run the same topologies with package topologytest on the same records, and want the same
// outputs: keys, values and headers byte by byte, timestamps, and the order within each topic.
// Controls, topologies that are wrong in one detail such as a grace that is a millisecond longer,
// have to be found by the same cases.
//
// Each operator has random cases, as many as -cases says, and the named ones of
// operators_cases_test.go: records out of order, at the boundary of the grace and on both sides of
// it, null keys and values, values that become and stay tombstones, equal and negative timestamps,
// keys that change, windows at the epoch. Random cases have all of that too, less often; they are
// made from a seed that -seed sets, and a failure shows the records of its case. Where an operator
// looks at the wall clock, it moves between the records, by the same steps in both drivers.
//
// Both drivers have one partition for each topic, as that of Kafka Streams has no other: what the
// partitioner does is tested elsewhere. A null that our topic does not allow becomes a dead letter,
// and the aggregations of Kafka Streams drop it: what is written is the same. Headers are compared,
// but not those of windows that close and of sessions, which differ (below). What any other
// operator emits has on both sides the headers of the record that it has at hand, also where it is
// made of many; Kafka Streams without a record cache, that is.
//
// How many records were dropped is compared for each case: the metric dropped-records-total of the
// driver of Kafka Streams, and what we count as "late", "out-of-order", "null-key", "null-value"
// and "invalid-timestamp", together with the dead letters. All dead letters here are nulls and
// invalid timestamps. Both count a record once for each window that it is too late for. Where two
// aggregations read one stream, Kafka Streams drops a null in each of them, and here it becomes one
// dead letter; that operator is not compared.
//
// The following differences are intended. operators_differences_test.go has a case for each, with
// the results of both sides:
//
//   - Stream time: in Kafka Streams the first record of a task fires every punctuation, although no
//     time has passed, and the punctuator gets the stream time. Here a punctuation fires when
//     stream time passes a multiple of the interval, and gets that multiple, so that its result
//     does not depend on the next record. The Java program ignores the first firing and rounds;
//     then both are the same.
//   - Wall clock: after a leap of the clock, the driver of Kafka Streams fires a schedule once.
//     Ours fires it as often as it became due on the way. The Java program moves its clock by the
//     millisecond. Our runtime also fires once after a stall.
//   - An invalid timestamp stops a task of Kafka Streams, by default or if there is no earlier time
//     to replace it. Here the record is a dead letter, and the others go on.
//   - Kafka Streams replaces an invalid timestamp by the largest one of the partition. Onceward
//     takes the largest one of the task, which also closes windows. Both are the same for a task
//     that reads one topic, as in the compared cases.
//   - The output of a closed window has headers in Kafka Streams: those of its last record if it is
//     suppressed, and those of the closing record, of any key, if it is emitted on close. Here it
//     has no headers, because it is made of many records.
//   - An update of a session has no headers in Kafka Streams. Here it has those of the record, as
//     every other update on both sides.
//   - A suppression of Kafka Streams emits a sliding window a millisecond before it stops taking
//     records, and emits it again after a record of that moment. Here it is emitted once, as Kafka
//     Streams does on close. Those two are compared.
//   - A session that is closed stays as it is here. There a late record joins it if the store still
//     has it, and a session that was emitted on close is emitted again. A store that keeps sessions
//     for as long as they take records has the same updates, but emitting on close finds none of
//     them there. So package topology compares closed sessions with the updates, and this package
//     the updates with those of Kafka Streams.
//   - A second record of the same moment as the session changes its value there without the value
//     before, so that a second aggregation would count both. Here the change has it.
//   - The old value of a change that a suppression emits is the one before the last change there,
//     which was never emitted. Here it is the one that was emitted last. The emitted record has the
//     headers of the last record there, and none here.
//   - Each stream of a cogroup has a clock of its own there, by which its records are late. Here
//     all of them have the clock of the store. The cases have a grace that makes no record late.
//   - The first change of an aggregate has the initial one for its old value in Kafka Streams, and
//     none here, where a second aggregation would subtract what was never added.
//   - A null that is left out moves the time of an outer join of streams there. Here it moves none.
//     So no null comes ahead of the other records in the cases of these joins.
//   - An outer join of streams looks for records that have closed once a second of the wall clock
//     there. After a look it takes the last record that waits for the earliest one. The Java
//     program has it look with every record, and then both are the same.
//   - The records that an outer join of streams passes on alone have the headers there of the
//     record that has closed their window, and none here. So the headers of outer joins are not
//     compared.
//   - A join with a grace stops there if its left stream has a null key. Here the record is passed
//     on at once.
//   - A versioned store does not keep a delete there that has the timestamp of the only version of
//     its key. An older version that comes later is then the newest. Here the delete is a version.
//     No delete has such a timestamp in the cases that are compared.
//   - A store of a join of streams keeps records for too short a time there if one of the limits is
//     0. The stores of the Java program keep them for a millisecond more then. A null moves no
//     store, as with RocksDB there.
//
// The Describe of our topologies has the grammar of Kafka Streams' own: one parser reads both, for
// every operator, and finds the same sub-topologies of the same sources with their topics,
// processors with their stores and sinks with their topics, and the same arrows. This is left out
// of the comparison:
//
//   - Names of nodes and of sub-topologies: positions there, and the user's here. So is the order
//     of nodes and arrows, sorted here.
//   - Processors that only Kafka Streams has: the step from a table to a stream (KTABLE-TOSTREAM),
//     the passes behind a split, the filter in front of a repartition topic, the sides of a join
//     and the streams of a cogroup, whose stores are those of our one processor, and the buffer of
//     a suppression with its store. The store that our windows wait in until they close,
//     <store>-closing, is left out likewise. So are those of an outer join and of a grace, on both
//     sides.
//   - The indentation of the line of a sub-topology: all but the first are a blank further left
//     there.
//
// A sink that chooses its topic shows the class that does it there, and here it is a processor with
// a sink for each of its topics. A join by a foreign key has five processors there and two here;
// they are not compared. The test driver of Kafka Streams ends the exchange of such a join before
// it takes the next record. So an answer is late only where a table is joined with itself.
//
// # Running it
//
// The tests need real Kafka, a JDK, 17 or newer, and Maven (see package cluster). Maven copies the
// jars of java/pom.xml into the user's cache directory once. The programs in java are compiled once
// in a process. Kafka's system tests and the copy start their own broker even if
// ONCEWARD_KAFKA_BROKERS names one: Kafka's tests fix the names of topics and group, and the copy
// kills its broker. The tests run on Unix only: they freeze and stop processes by signals.
//
//	                       make test-kafka (-short)      all tests                       at length (-full, -cases)
//	StreamsEosTest         simple, each end once         simple and complex              make verify-eos: 21 ends each
//	StreamsSmokeTest       not run                       400 values a key, one control   make verify-smoke
//	copy                   10,000 records, a kill each   the same                        make verify-copy: 100,000 and 33,333, three kills each
//	layouts                run                           the same
//	operators              100 random cases each         the same                        make verify-differential: 1,000
package conformance
