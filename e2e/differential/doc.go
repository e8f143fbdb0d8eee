// Package differential compares the operators of package topology with those of Kafka Streams. A small Java program,
// streams/Differential.java, runs one topology for each operator in Kafka Streams' own test driver; the tests run the same topologies
// with package topologytest on the same records, and want the same outputs: keys and values byte by byte, timestamps, and the order
// within each topic. The package has nothing but these tests.
//
// # The cases
//
// Each operator has random cases, 100 or as many as -cases says, 1,000 in "make verify-differential", and the named ones of
// cases_test.go: records out of order, at the boundary of the grace and on both sides of it, null keys and values, values that become
// and stay tombstones, equal and negative timestamps, keys that change, windows at the epoch. Random cases have all of that too, less
// often; they are made from a seed that -seed sets, and a failure shows the records of its case.
//
// Both drivers have one partition for each topic, as that of Kafka Streams has no other: what the partitioner does is tested elsewhere.
// Headers are not compared, since aggregations of Kafka Streams drop them. A null where our topic allows none dies, and the aggregations
// of Kafka Streams drop it: what is written is the same.
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
