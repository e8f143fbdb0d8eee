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
// does. The application writes the same topics as Kafka's, which java/SmokeTopics.java lists;
// neither reads fk, which the generator fills.
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
// java/Differential.java runs one topology for each operator in the test driver of Kafka Streams.
// The tests run the same topologies with package topologytest on the same records. They require the
// same outputs: keys, values and headers byte by byte, timestamps, and the order within each topic.
// Controls are topologies that are wrong in one detail, such as a grace period that is a
// millisecond longer. The same cases have to find them.
//
// Each operator has random cases, as many as -cases says, and the named cases of
// operators_cases_test.go. The named cases have records out of order and around the end of the
// grace period, null keys and values, and values that become and stay tombstones. They also have
// equal and negative timestamps, changing keys, and windows at the epoch. Random cases have all of
// that too, less often. The flag -seed sets their
// seed, and a failure prints the records of its case. For operators that use the wall clock, the
// clock moves between the records, by the same steps in both drivers.
//
// Each topic has one partition in both drivers, because the driver of Kafka Streams has no other;
// other tests cover the partitioner. A null that a topic does not allow becomes a dead letter here,
// where the aggregations of Kafka Streams drop it: the outputs are the same. Headers are compared,
// except those of closed windows and of sessions, which differ (see below). The output of any other
// operator has the headers of the record that made it, on both sides, also if it depends on many
// records. For Kafka Streams this holds without a record cache.
//
// The numbers of dropped records are compared for each case: the metric dropped-records-total of
// the driver of Kafka Streams, and our outcomes "late", "out-of-order", "null-key", "null-value"
// and "invalid-timestamp", together with the dead letters. All dead letters here are nulls and
// invalid timestamps. Both sides count a record once for each window that it is too late for. If
// two aggregations read one stream, Kafka Streams drops a null in each of them, and here it becomes
// one dead letter; that operator is not compared.
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
//   - A closed session does not change here. In Kafka Streams a late record joins it if the store
//     still has it, and a session that was emitted on close is emitted again. A store that keeps
//     sessions for as long as they take records has the same updates. But emitting on close finds
//     no sessions in such a store. So package topology compares closed sessions with the updates,
//     and this package the updates with those of Kafka Streams.
//   - A second record at the time of a session changes its value without an old value in Kafka
//     Streams, so that a second aggregation would count both. Here the change has the old value.
//   - The old value of a change that a suppression emits is the value before the last change in
//     Kafka Streams, which was never emitted. Here it is the last emitted value. The emitted record
//     has the headers of the last record in Kafka Streams, and none here.
//   - Each stream of a cogroup has its own clock for late records in Kafka Streams. Here all
//     streams have the clock of the store. The cases have a grace period that makes no record late.
//   - The first change of an aggregate has the initial value as its old value in Kafka Streams.
//     Here it has none: a second aggregation would subtract a value that was never added.
//   - A null that is left out moves the time of an outer join of streams in Kafka Streams, and not
//     here. So no null comes ahead of the other records in the cases of these joins.
//   - An outer join of streams in Kafka Streams looks for closed records once a second of the wall
//     clock. After a look it takes the last waiting record for the earliest one. The Java program
//     makes it look with every record; then both are the same.
//   - Records that an outer join of streams emits alone have the headers of the record that closed
//     their window in Kafka Streams, and none here. So the headers of outer joins are not compared.
//   - In Kafka Streams a store of a join of streams keeps records for too short a time if one of
//     the limits is 0. The stores of the Java program then keep them for a millisecond more. A null
//     moves no store, as with RocksDB in Kafka Streams.
//   - A join with a grace stops in Kafka Streams if its left stream has a null key. Here it emits
//     the record at once.
//   - A versioned store of Kafka Streams loses a delete that has the timestamp of the only version
//     of its key. An older version that comes later is then the newest. Here the delete is a
//     version. The compared cases have no delete with such a timestamp.
//
// The Describe of a topology has the grammar of Kafka Streams. One parser reads both, for every
// operator. It finds the same sub-topologies of the same sources with their topics, processors with
// their stores, sinks with their topics, and the same arrows. The following is not compared:
//
//   - Names of nodes and of sub-topologies: Kafka Streams numbers them, here the user names them.
//     Nor is the order of nodes and arrows, which is sorted here.
//   - Processors that only Kafka Streams has: the step from a table to a stream (KTABLE-TOSTREAM),
//     the passes behind a split, the filter before a repartition topic, and the buffer of a
//     suppression with its store. The sides of a join and the streams of a cogroup are processors
//     there; their stores are those of one processor here. Stores that only Onceward has are left
//     out too: the one in which windows wait until they close, <store>-closing. The same store of
//     an outer join, and the buffer of a join with a grace, are left out on both sides.
//   - The indentation of a sub-topology's line: in Kafka Streams all but the first have one blank
//     less.
//
// A sink that chooses its topic shows the class that chooses in Kafka Streams. Here it is a
// processor with a sink for each of its topics. A join by a foreign key has five processors in
// Kafka Streams and two here; they are not compared. The test driver of Kafka Streams ends the
// exchange of such a join before it takes the next record. So an answer is late only if a table is
// joined with itself.
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
