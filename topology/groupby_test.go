package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestGroupByAndRepartitionInheritCodecs: operators that keep the Go type keep the codec of the
// topic, whatever is between, and a record with another type in the middle.
func TestGroupByAndRepartitionInheritCodecs(t *testing.T) {
	b := topology.NewBuilder("inherit")
	source := topology.From(b, wordsTopic)
	other := source.Filter("all", pass).Merge("both", topology.From(b, otherTopic))
	lengths := topology.MapValues(other, "length", func(v string) (int64, error) { return int64(len(v)), nil })
	texts := topology.MapValues(lengths, "text", func(v int64) (string, error) { return fmt.Sprint(v), nil })
	byLength := topology.GroupBy(texts, "by-length", schemas.String(), func(_, length string) (string, error) { return length, nil })
	byLength.Repartition("again").Into(outTopic)
	top := mustBuild(t, b)
	d, err := topologytest.New(top)
	if err != nil {
		t.Fatal(err)
	}
	if err := topologytest.Pipe(d, wordsTopic, "k", "four"); err != nil {
		t.Fatal(err)
	}
	records, err := topologytest.Output(d, outTopic)
	if err != nil || len(records) != 1 || records[0].Key != "4" || records[0].Value != "4" {
		t.Errorf("the output is %v, %v", records, err)
	}
}

// TestUnknownCodecsAreMistakes: a stream whose topic has another Go type, in the one part that
// misses it.
func TestUnknownCodecsAreMistakes(t *testing.T) {
	b := topology.NewBuilder("unknown")
	s := topology.From(b, wordsTopic)
	lengths := topology.MapValues(s, "length", func(v string) (int, error) { return len(v), nil })
	topology.GroupBy(lengths, "by-length", schemas.Int64(), func(_ string, n int) (int64, error) { return int64(n), nil })
	topology.SelectKey(lengths, "select", func(r topology.Record[string, int]) (int, error) { return r.Value, nil }).Repartition("moved")
	topology.GroupBy[string, string, string](s, "nil", schemas.String(), nil)
	s.Repartition("bad name")
	_, err := b.Build()
	wantMistakes(t, err,
		"by-length: the stream comes from no topic with values of type int, so their codec is not known; use RepartitionWith",
		"moved: the stream comes from no topic with keys of type int, so their codec is not known; use RepartitionWith\n"+
			"the stream comes from no topic with values of type int",
		"nil-key: the function is nil",
		"bad name: name of the repartitioning: ",
	)
}

// TestGroupByFailsTheRecordOfItsFunction, and so does FlatMapValues: nothing of the record goes on.
func TestGroupByFailsTheRecordOfItsFunction(t *testing.T) {
	refuse := topology.Fail(topology.Validation, schemas.Reason("told to fail"))
	b := topology.NewBuilder("fails")
	letters := topology.FlatMapValues(topology.From(b, wordsTopic), "letters", func(text string) ([]string, error) {
		if text == "" {
			return nil, refuse
		}
		return strings.Split(text, ""), nil
	})
	topology.GroupBy(letters, "by-letter", schemas.String(), func(key, letter string) (string, error) {
		if letter == "!" {
			return "", refuse
		}
		return key + letter, nil
	})
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	v := want(t, k.words("k", "xy"), graph.Accept)
	if got := len(v.Outputs); got != 2 || string(v.Outputs[1].Key) != "ky" || string(v.Outputs[1].Value) != "y" {
		t.Errorf("outputs: %s", lines(v.Outputs))
	}
	for text, node := range map[string]string{"": "letters", "x!": "by-letter-key"} {
		v := want(t, k.words("k", text), topology.Stop)
		if v.Failure.Node != node || len(v.Outputs) != 0 || v.Failure.Class != topology.Validation {
			t.Errorf("%q: failure %v with %d outputs", text, v.Failure, len(v.Outputs))
		}
	}
}

func ExampleFlatMapValues() {
	b := topology.NewBuilder("flat-map-values")
	topology.FlatMapValues(topology.From(b, said), "words", func(text string) ([]string, error) {
		return strings.Fields(text), nil
	}).Into(heard)
	run(b, heard, send(said, "ann", "hello there"), send(said, "bob", ""))
	// Output:
	// ann hello
	// ann there
}

// GroupBy brings equal values together under a new key, through a repartition topic, and Count
// counts them.
func ExampleGroupBy() {
	counts := topology.Topic("counts", schemas.String(), schemas.Int64())
	store := topology.TimestampedStore("text-counts", schemas.String(), schemas.Int64())

	b := topology.NewBuilder("group-by")
	byText := topology.GroupBy(topology.From(b, said), "texts", schemas.String(), func(_, text string) (string, error) { return text, nil })
	topology.Count(byText, store).Into(counts)
	run(b, counts, send(said, "ann", "hello"), send(said, "bob", "hello"))
	// Output:
	// hello 1
	// hello 2
}
