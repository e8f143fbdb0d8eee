// Package verifyeos lets Kafka judge the runtime: generator and verifier are those of Kafka's own system test
// for exactly-once processing, StreamsEosTest, unchanged from its jar. The application between them, which
// there is a Kafka Streams program, is e2e/clients/eos. The package has nothing but this test.
//
// # The scenario
//
// The generator writes about 200 records a second to a topic of five partitions, with 20,000 keys. Three
// instances of the application share them, processes of their own, with a session timeout of 10 s. One after
// the other is
//
//   - killed, and started again once the others have taken over its tasks,
//   - killed, and started again at once, under the same name and with the same state directory,
//   - stopped with SIGTERM, which it has to obey in order, and started again after the takeover.
//
// SIGKILL always strikes while the broker lists an open transaction of that instance. Transactions last a few
// milliseconds, so the instance is frozen for each look; what kills report is what the broker lists afterwards.
// Nothing goes on before all instances that are up say that they are running and have processed more, and
// every input that there was at the kill is committed in every partition. At last the generator is stopped,
// the rest is processed, and all instances are stopped in order.
//
// It is run twice: simple has two aggregates of the input; complex copies the input to another topic as well,
// which the same application reads for two more.
//
// # The judgement
//
// The verifier reads committed records only. It requires that no transaction is open, that the group is empty,
// that the copies are the inputs in the same partitions and order, and that each aggregate has one result for
// every input, in order, with the value that is right at that place. The test passes if it prints
// ALL-RECORDS-DELIVERED at its end; its exit code says nothing.
//
// Two things it does not look at are checked here: that all that was generated is committed, and that no
// output topic misses records at its end. What it can hardly see is state: a lost store write shows only when
// its key comes again, which in a short run few keys do.
//
// The negative control runs over the same input: an application that copies some inputs twice, leaves some out
// or forgets some sums has to be refused by the part of the verifier that looks at it.
//
// # Running it
//
// "make verify-eos" kills and stops every instance several times. As a part of all tests each of the three
// things is done once; with -short, as in make test-kafka, with the simple variant only. Java 17 and Maven are needed, as package cluster says: Maven
// copies the jars that pom.xml names into the user's cache directory once. A broker of its own is started even
// where ONCEWARD_KAFKA_BROKERS names one, because Kafka's test gives the names of topics and group. Unix only:
// processes are frozen and stopped by signals.
package verifyeos
