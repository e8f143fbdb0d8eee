package topology_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The topics of the examples: people and what they say.
var (
	said  = topology.Topic("said", schemas.String(), schemas.String())
	heard = topology.Topic("heard", schemas.String(), schemas.String())
)

func ExampleStream_Filter() {
	b := topology.NewBuilder("filter")
	topology.From(b, said).Filter("loud", func(r topology.Record[string, string]) (bool, error) {
		return strings.HasSuffix(r.Value, "!"), nil
	}).Into(heard)
	run(b, heard, send(said, "ann", "hello"), send(said, "bob", "HEY!"))
	// Output: bob HEY!
}

func ExampleStream_Peek() {
	b := topology.NewBuilder("peek")
	topology.From(b, said).Peek("see", func(r topology.Record[string, string]) error {
		fmt.Println("seen:", r.Value)
		return nil
	}).Into(heard)
	run(b, heard, send(said, "ann", "hello"))
	// Output:
	// seen: hello
	// ann hello
}

func ExampleStream_Merge() {
	written := topology.Topic("written", schemas.String(), schemas.String())
	b := topology.NewBuilder("merge")
	topology.From(b, said).Merge("both", topology.From(b, written)).Into(heard)
	run(b, heard, send(said, "ann", "hello"), send(written, "bob", "hi"))
	// Output:
	// ann hello
	// bob hi
}

func ExampleMap() {
	b := topology.NewBuilder("map")
	topology.Map(topology.From(b, said), "swap", func(r topology.Record[string, string]) (topology.Record[string, string], error) {
		return topology.WithKey(topology.WithValue(r, r.Key), r.Value), nil
	}).Into(heard)
	run(b, heard, send(said, "ann", "hello"))
	// Output: hello ann
}

func ExampleMapValues() {
	lengths := topology.Topic("lengths", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("map-values")
	topology.MapValues(topology.From(b, said), "length", func(v string) (int64, error) {
		return int64(len(v)), nil
	}).Into(lengths)
	run(b, lengths, send(said, "ann", "hello"))
	// Output: ann 5
}

func ExampleMapValuesWithRecord() {
	b := topology.NewBuilder("map-values-with-record")
	topology.MapValuesWithRecord(topology.From(b, said), "quote", func(r topology.Record[string, string]) (string, error) {
		return r.Key + " says " + r.Value, nil
	}).Into(heard)
	run(b, heard, send(said, "ann", "hello"))
	// Output: ann ann says hello
}

func ExampleMapHeaders() {
	b := topology.NewBuilder("map-headers")
	labelled := topology.MapHeaders(topology.From(b, said), "label",
		func(r topology.Record[string, string]) ([]topology.Header, error) {
			return []topology.Header{{Key: "length", Value: []byte(strconv.Itoa(len(r.Value)))}}, nil
		})
	topology.MapValuesWithRecord(labelled, "show", func(r topology.Record[string, string]) (string, error) {
		length, _ := r.Header("length")
		return r.Value + " " + string(length), nil
	}).Into(heard)
	run(b, heard, send(said, "ann", "hello"))
	// Output: ann hello 5
}

func ExampleFlatMap() {
	type text = topology.Record[string, string]
	b := topology.NewBuilder("flat-map")
	topology.FlatMap(topology.From(b, said), "words", func(r text, emit func(text) error) error {
		for _, word := range strings.Fields(r.Value) {
			if err := emit(topology.WithValue(r, word)); err != nil {
				return err
			}
		}
		return nil
	}).Into(heard)
	run(b, heard, send(said, "ann", "hello there"), send(said, "bob", ""))
	// Output:
	// ann hello
	// ann there
}

// The key changes here, and the record stays where it is; Repartition would move it.
func ExampleSelectKey() {
	b := topology.NewBuilder("select-key")
	topology.SelectKey(topology.From(b, said), "by-text", func(r topology.Record[string, string]) (string, error) {
		return r.Value, nil
	}).Into(heard)
	run(b, heard, send(said, "ann", "hello"))
	// Output: hello hello
}

func ExampleStream_Split() {
	questions := topology.Topic("questions", schemas.String(), schemas.String())
	b := topology.NewBuilder("split")
	kinds := topology.From(b, said).Split("kinds")
	kinds.Case("question", func(r topology.Record[string, string]) (bool, error) {
		return strings.HasSuffix(r.Value, "?"), nil
	}).Into(questions)
	kinds.Otherwise("rest").Into(heard)
	d := run(b, heard, send(said, "ann", "hello"), send(said, "bob", "who is there?"))
	fmt.Println("questions:")
	printTopic(d, questions)
	// Output:
	// ann hello
	// questions:
	// bob who is there?
}

func ExampleStream_Into() {
	b := topology.NewBuilder("into")
	topology.From(b, said).Into(heard)
	run(b, heard, send(said, "ann", "hello"))
	// Output: ann hello
}

// Each record goes to the topic of its country. The topics are named when the topology is declared,
// so that they can be looked at before it runs.
func ExampleStream_IntoOneOf() {
	german := topology.Topic("said.de", schemas.String(), schemas.String())
	french := topology.Topic("said.fr", schemas.String(), schemas.String())
	other := topology.Topic("said.other", schemas.String(), schemas.String())

	b := topology.NewBuilder("route")
	topology.From(b, said).IntoOneOf("language",
		func(r topology.Record[string, string]) (topology.TopicOf[string, string], error) {
			switch r.Value {
			case "hallo":
				return german, nil
			case "salut":
				return french, nil
			}
			return other, nil
		}, []topology.TopicOf[string, string]{german, french, other})
	run(b, french, send(said, "ann", "hallo"), send(said, "bob", "salut"))
	// Output: bob salut
}

// Repartition brings together what has a new key, through a topic of its own.
func ExampleStream_Repartition() {
	counts := topology.Topic("counts", schemas.String(), schemas.Int64())
	store := topology.TimestampedStore("text-counts", schemas.String(), schemas.Int64())

	b := topology.NewBuilder("repartition")
	byText := topology.SelectKey(topology.From(b, said), "by-text", func(r topology.Record[string, string]) (string, error) {
		return r.Value, nil
	})
	moved := byText.Repartition("texts", topology.Partitions(6))
	topology.Count(moved, store).Into(counts)
	run(b, counts, send(said, "ann", "hello"), send(said, "bob", "hello"))
	// Output:
	// hello 1
	// hello 2
}

// The key becomes its first part, by which the topic is partitioned: the records of one key are
// together already.
func ExampleStream_Copartitioned() {
	counts := topology.Topic("counts", schemas.String(), schemas.Int64())
	store := topology.TimestampedStore("house-counts", schemas.String(), schemas.Int64())

	b := topology.NewBuilder("copartitioned")
	byHouse := topology.SelectKey(topology.From(b, said), "house", func(r topology.Record[string, string]) (string, error) {
		house, _, _ := strings.Cut(r.Key, "/")
		return house, nil
	})
	topology.Count(byHouse.Copartitioned(), store).Into(counts)
	run(b, counts, send(said, "red/ann", "hello"), send(said, "red/bob", "hi"))
	// Output:
	// red 1
	// red 2
}
