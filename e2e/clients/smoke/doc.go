// Command smoke is the application that Kafka's own StreamsSmokeTest judges, written with Onceward: what SmokeTestClient is there. Package
// e2e/verifysmoke runs it; see there for the whole test.
//
//	smoke --brokers host:port[,host:port] --instance p1 --state-dir dir
//
// It is one instance of the application SmokeTest. All topics exist before it starts, with equally many partitions. Keys are strings, "data"
// has 32-bit integers, and an input with the key "flush" at the end of each partition, whose time closes all windows:
//
//	echo                          every input but the flush
//	min-raw, min-suppressed, min  the smallest value of a day: each update, the final one, and each update by the key alone
//	sws-raw, sws-suppressed       the sum over two seconds, a second apart: each update, and the final one
//	max, sum, cnt                 largest value, sum and number over two days, each update by the key alone
//	dif, avg                      tables of max, min, sum and cnt, read back and joined: max - min, and sum / cnt
//	tagg                          how many keys have each count
//
// What it prints and how it ends is that of package client.
//
// # Negative control
//
// With --broken the application makes a mistake: "duplicate" copies some inputs to echo twice, "forget" leaves some out of the sum, and
// "early" gives results of windows as final that are not. The verifier has to notice each.
package main
