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
// What it prints and how it ends is that of package client.
//
// # Negative control
//
// With --broken the application makes a mistake now and then: it copies an input twice, leaves one out, or
// forgets what it has added up. The verifier has to notice each.
package main
