package topology_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// The topics and the store of the word count.
var (
	lineTopic = topology.Topic("lines", schemas.String(), schemas.String())
	wordTopic = topology.Topic("word-counts", schemas.String(), schemas.Int64())
	wordStore = topology.TimestampedStore("counts", schemas.String(), schemas.Int64())
)

// wordCount splits lines into words, brings equal words together in a repartition topic, and counts
// them.
func wordCount() (*topology.Topology, error) {
	b := topology.NewBuilder("word-count")
	words := topology.FlatMapValues(topology.From(b, lineTopic), "split", split)
	byWord := topology.GroupBy(words, "words", schemas.String(), itself)
	topology.Count(byWord, wordStore).Into(wordTopic)
	return b.Build()
}

func split(line string) ([]string, error) { return strings.Fields(strings.ToLower(line)), nil }

func itself(_, word string) (string, error) { return word, nil }

// Counting words.
func Example_wordCount() {
	t, err := wordCount()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(t.Describe())

	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	if err := topologytest.Pipe(d, lineTopic, "", "to be or not to be"); err != nil {
		log.Fatal(err)
	}
	records, err := topologytest.Output(d, wordTopic)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range records {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// Topologies:
	//    Sub-topology: lines
	//     Source: lines-source (topics: [lines])
	//       --> split
	//     Processor: split (stores: [])
	//       --> words-key
	//       <-- lines-source
	//     Processor: words-key (stores: [])
	//       --> words-repartition-sink
	//       <-- split
	//     Sink: words-repartition-sink (topic: words-repartition)
	//       <-- words-key
	//
	//    Sub-topology: words
	//     Source: words-repartition-source (topics: [words-repartition])
	//       --> counts
	//     Processor: counts (stores: [counts])
	//       --> word-counts-sink
	//       <-- words-repartition-source
	//     Sink: word-counts-sink (topic: word-counts)
	//       <-- counts
	//
	// to 1
	// be 1
	// or 1
	// not 1
	// to 2
	// be 2
}
