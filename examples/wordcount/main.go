// Command wordcount counts the words of the lines in a topic. It is the smallest whole program: a
// topology and a main function of one statement.
//
//	wordcount -brokers localhost:9092 -state-dir ./state
//
// It reads the topic lines, and writes each new count to the topic word-counts. The key is the word.
// The value is the count, as text.
package main

import (
	"flag"
	"os"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

var (
	lines  = topology.Topic("lines", schemas.String(), schemas.String())
	counts = topology.Topic("word-counts", schemas.String(), schemas.JSON[int64]())
	store  = topology.TimestampedStore("counts", schemas.String(), schemas.JSON[int64]())
)

func wordCount() (*topology.Topology, error) {
	b := topology.NewBuilder("word-count")
	words := topology.FlatMapValues(topology.From(b, lines), "split", split)
	byWord := topology.GroupBy(words, "words", schemas.String(), itself)
	topology.Count(byWord, store).Into(counts)
	return b.Build()
}

// split returns the words of a line.
func split(line string) ([]string, error) { return strings.Fields(strings.ToLower(line)), nil }

// itself makes a word the key of its record, so that equal words are counted together.
func itself(_, word string) (string, error) { return word, nil }

func main() {
	brokers := flag.String("brokers", "localhost:9092", "addresses of Kafka brokers, separated by commas")
	stateDir := flag.String("state-dir", "state", "directory for the state of this instance")
	flag.Parse()
	os.Exit(onceward.Run(wordCount, txn.Config{Brokers: strings.Split(*brokers, ","), StateDir: *stateDir}))
}
