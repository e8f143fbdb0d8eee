// Package streams lets Kafka Streams itself judge that changelogs are laid out as its own (state/FORMAT.md, Rows): an
// application of ours fills a store of each kind that Kafka Streams has too, and Kafka Streams restores its own stores
// from those changelogs and says what it sees in them.
//
// It needs a real broker and a JDK, and treats what is missing as package cluster does. StreamsRead.java is compiled by
// the test; its jars are those of bench/peers.
package streams
