// Package verifysmoke lets Kafka judge windows, final results, tables and joins under failures: generator and verifier are those of Kafka's
// own StreamsSmokeTest, unchanged from its jar. The application between them, which there is a Kafka Streams program, is e2e/clients/smoke.
// The package has nothing but this test.
//
// # The scenario
//
// The generator writes 20 keys with 1,000 values each to a topic of five partitions, for about a minute and a half, with times of two days
// ago; then a record of now to each partition, which closes all windows. Meanwhile three instances of the application, processes of their
// own,
//
//   - join one after the other,
//   - are killed, and started again once the others have taken over their tasks, or at once,
//   - leave in order, and join again.
//
// Nothing goes on before all instances that are up say that they are running, and every input that there was is committed.
//
// # The judgement
//
// The verifier reads committed records only. It requires that no transaction is open, that every key has the right last result in each of
// the topics min, max, sum, cnt, dif, avg and tagg, and that no window has two final results in min-suppressed and sws-suppressed.
// The test passes if it prints SUCCESS and ALL-RECORDS-DELIVERED; its exit code says nothing. It does not fail for records that echo has
// twice, so PROCESSED-MORE-THAN-GENERATED must not be there either. What windows of two seconds it should find in sws-suppressed, with which
// sums, it does not ask: that is checked here.
//
// The negative controls are applications that make a mistake each; the verifier has to find it. For all but one it waits two to six minutes.
//
// # Running it
//
// "make verify-smoke" runs all of it. As a part of all tests the scenario is run once, with 400 values for each key in half a minute, and
// the control that needs no waiting; -short leaves both out. As the command of Kafka's test has its numbers inside, a program of a few
// lines, streams/ShortRun.java, calls the same generator and verifier with others.
//
// A JDK, 17 or newer, and Maven are needed, as package cluster says. A broker of its own is started even where ONCEWARD_KAFKA_BROKERS names
// one, because Kafka's test gives the names of the topics. Windows of days end at midnight, UTC: a run that would cross it waits for it
// first. Unix only: processes are stopped by signals.
package verifysmoke
