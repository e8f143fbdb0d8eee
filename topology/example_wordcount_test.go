package topology_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// Counting words: lines are split, words meet by their key in a repartition topic, and a store has the
// counts.
func Example_wordCount() {
	type (
		text  = topology.Record[string, string]
		count = topology.Record[string, int64]
	)
	lines := topology.Topic("lines", schemas.String(), schemas.String())
	counts := topology.Topic("word-counts", schemas.String(), schemas.Int64())
	store := topology.Store("counts", schemas.String(), schemas.Int64())

	b := topology.NewBuilder("word-count")
	words := topology.FlatMap(topology.From(b, lines), "split", func(r text, emit func(text) error) error {
		for _, w := range strings.Fields(strings.ToLower(r.Value)) {
			if err := emit(topology.WithKey(topology.WithValue(r, ""), w)); err != nil {
				return err
			}
		}
		return nil
	})
	byWord := topology.Repartition(words, "words", schemas.String(), schemas.String())
	topology.Process(byWord, "count", store, func(
		c *topology.Context, counts state.KeyValue[string, int64], r text, emit topology.Emit[string, int64],
	) error {
		n, _, err := counts.Get(r.Key)
		if err != nil {
			return err
		}
		if err := counts.Put(r.Key, n+1); err != nil {
			return err
		}
		return emit(c, count{Key: r.Key, Value: n + 1})
	}).Into(counts)

	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(t.Describe())

	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	if err := topologytest.Pipe(d, lines, "", "to be or not to be"); err != nil {
		log.Fatal(err)
	}
	records, err := topologytest.Output(d, counts)
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
	//       --> words-repartition-sink
	//       <-- lines-source
	//     Sink: words-repartition-sink (topic: words-repartition)
	//       <-- split
	//
	//    Sub-topology: words
	//     Source: words-repartition-source (topics: [words-repartition])
	//       --> count
	//     Processor: count (stores: [counts])
	//       --> word-counts-sink
	//       <-- words-repartition-source
	//     Sink: word-counts-sink (topic: word-counts)
	//       <-- count
	//
	// to 1
	// be 1
	// or 1
	// not 1
	// to 2
	// be 2
}
