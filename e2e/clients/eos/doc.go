// Command eos is the application that Kafka's own StreamsEosTest judges, written with Onceward. Package
// e2e/verifyeos runs it; see there for the whole test.
//
//	eos --brokers host:port[,host:port] --instance p1 --state-dir dir [--variant simple|complex]
//
// It is one instance of the application EosTest, which is also the name of its group. All topics exist
// before it starts, with equally many partitions. Keys are strings, "data" has 32-bit integers:
//
//	data         every input goes to echo as it is, and to min and sum, each as a new result per input
//	repartition  only complex: a copy of data, written and read again by this application, which gives max
//	             and cnt, again one result per input
//
// Results of a partition are in the order of its inputs and in the partition of the same number. min and max
// are 32-bit integers, sum and cnt 64-bit, big-endian as Kafka's serializers write them.
//
// # What it prints
//
// Standard output has one line whenever one of these has changed, which it looks at twice a second:
//
//	state: RUNNING          all tasks that the group has given to this instance are open; there is at least one
//	state: REBALANCING      some are not, or there is none yet
//	state: ERROR            a task has stopped for good; the log says why
//	processed 1234 records  since this process started, all of them committed
//
// The other states are STARTING, STOPPING and STOPPED. Logs go to standard error. SIGTERM and SIGINT end it in
// order: what is open is committed and the group is left, the exit code is 0. It is 1 for any other end and 2
// for wrong arguments.
//
// # Negative control
//
// With --broken the application makes a mistake now and then: it copies an input twice, leaves one out, or
// forgets what it has added up. The verifier has to notice each.
package main
