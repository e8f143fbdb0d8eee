// Package conformance lets Apache Kafka judge Onceward: its own system tests, and Kafka Streams
// beside the same topologies. The package has nothing but tests.
//
// # StreamsEosTest
//
// Generator and verifier are those of Kafka's system test for exactly-once processing, unchanged
// from its jar; the application between them, which there is a Kafka Streams program, is ours. The
// generator writes about 200 records a second to a topic of five partitions, with 20,000 keys.
// Three instances of the application share them, processes of their own with a session timeout of
// 10 s. One after the other is
//
//   - killed, and started again once the others have taken over its tasks,
//   - killed, and started again at once, under the same name and with the same state directory,
//   - stopped with SIGTERM, which it has to obey in order, and started again after the takeover.
//
// SIGKILL always strikes while the broker lists an open transaction of that instance. The test
// waits until all instances that are up run all their tasks and have processed more, and until
// every input that there was at the kill is committed in every partition. At last the generator is
// stopped, the rest is processed, and all instances are stopped in order. The test runs with two
// variants: simple has two aggregates of the input; complex copies the input to another topic as
// well, which the same application reads for two more.
//
// The verifier reads committed records only. It requires that no transaction is open, that the
// group is empty, that the copies are the inputs in the same partitions and order, and that each
// aggregate has one result for every input, in order, with the value that is right at that place.
// The test passes if the verifier prints ALL-RECORDS-DELIVERED at its end; its exit code says
// nothing. The test itself checks that all that was generated is committed, and that no output
// topic misses records at its end, for the verifier does neither. It hardly sees state: a lost
// store write shows only when its key comes again, which in a short run few keys do.
//
// The negative control runs over the same input: an application that copies some inputs twice,
// leaves some out or forgets some sums has to be refused by the part of the verifier that looks at
// it.
//
// # StreamsSmokeTest
//
// In the same way this test of Kafka's judges windows, final results, tables and joins. The
// generator writes 20 keys with 1,000 values each for about a minute and a half, with times of two
// days ago; then a record of now to each partition, which closes all windows. Meanwhile three
// instances of the application join one after the other, are killed and come back after the
// takeover or at once, and leave in order and join again. On a slow machine the generator can end
// before the last kill, which is no failure: the log says how many records came after it.
//
// The verifier requires that no transaction is open, that every key has the right last result in
// each of the topics min, max, sum, cnt, dif, avg and tagg, and that no window has two final
// results in min-suppressed and sws-suppressed. The test passes if it prints SUCCESS and
// ALL-RECORDS-DELIVERED. It does not fail for records that echo has twice, so
// PROCESSED-MORE-THAN-GENERATED must not be there either. It does not check which windows of two
// seconds there are in sws-suppressed, and with which sums: the test itself checks that.
//
// The negative controls are applications that make a mistake each. For all but one the verifier
// waits two to six minutes. Windows of days end at midnight, UTC: a run that would cross it waits
// for it first. As Kafka's command has its numbers inside, java/ShortRun.java calls the same
// generator and verifier with others.
//
// # The copy test of TransactionsTest
//
// It repeats what Kafka's system test TransactionsTest
// (tests/kafkatest/tests/core/transactions_test.py) asks of a transactional client: records are
// copied from one topic to another in transactions of 750, while the client, or the broker, is
// killed again and again, and while a read_committed reader follows. Afterwards nothing may be
// missing, doubled or out of order, neither for the reader that followed nor for one that comes
// later. It differs in this:
//
//   - One broker, killed three times, instead of three that are bounced in turn: what replication
//     promises is not ours to test. Its controller is a process of its own that stays up, without
//     which Kafka 4.3.1 loses markers of its own.
//   - The client and the broker are killed in turn in the same copy. The client is killed when the
//     broker lists an open transaction of it.
//   - Order is judged with several partitions too: within each pair of input and output partition.
//   - The history is judged by package check, so that a torn transaction is found as well.
//
// # Layouts of changelogs
//
// An application of ours fills a store of each kind that Kafka Streams has too.
// java/StreamsRead.java lets Kafka Streams restore its own stores from those changelogs and prints
// what it sees in them: the same, if they are laid out as its own (state/FORMAT.md, Rows). A
// changelog with start and end of its sessions swapped is the negative control.
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
// dead letter, so that operator is left out.
//
// These differ on purpose, and operators_differences_test.go has a case of each, with what both
// sides make of it:
//
//   - On stream time the first record of a task fires every punctuation of Kafka Streams, although
//     no time has passed, and the punctuator gets the stream time. Ours fires when a multiple of
//     the interval is passed and gets that multiple, so that its result does not depend on what
//     record came next. The Java program leaves the first firing out and rounds, and then both are
//     the same.
//   - When the wall clock leaps, the driver of Kafka Streams fires a schedule once, and ours as
//     often as it became due on the way. The Java program moves its clock by the millisecond. A
//     runtime of ours that has stalled fires once too.
//   - An invalid timestamp stops a task of Kafka Streams, by default or where there is no time yet
//     to take in its place. Here the record is a dead letter, and the others go on.
//   - In place of an invalid timestamp Kafka Streams takes the largest of the partition, and we
//     that of the task, by which windows close. They are the same where a task reads one topic, as
//     in the cases that are compared.
//   - What a window emits when it closes has headers there: those of the last record in it if it is
//     suppressed, and those of the record that has closed it if it is emitted on close, whatever
//     its key. Here it has none, for it is made of many records.
//   - An update of a session has no headers there. Here it has those of the record, as every other
//     update on both sides.
//   - A suppression of Kafka Streams emits a sliding window a millisecond before it takes no more
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
// Real Kafka, a JDK, 17 or newer, and Maven are needed, as package cluster says: Maven copies the
// jars that java/pom.xml names into the user's cache directory once, and the programs in java are
// compiled once in a process. Kafka's system tests and the copy have a broker of their own even
// where ONCEWARD_KAFKA_BROKERS names one, because Kafka's tests give the names of topics and group,
// and the copy kills its broker. Unix only: processes are frozen and stopped by signals.
//
//	                       make test-kafka (-short)      all tests                       at length (-full, -cases)
//	StreamsEosTest         simple, each end once         simple and complex              make verify-eos: 21 ends each
//	StreamsSmokeTest       not run                       400 values a key, one control   make verify-smoke
//	copy                   10,000 records, a kill each   the same                        make verify-copy: 100,000 and 33,333, three kills each
//	layouts                run                           the same
//	operators              100 random cases each         the same                        make verify-differential: 1,000
package conformance
