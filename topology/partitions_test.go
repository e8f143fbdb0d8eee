package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

func repartition(s words, name string, opts ...topology.RepartitionOption) words {
	return topology.RepartitionWith(s, name, schemas.String(), schemas.String(), opts...)
}

func TestResolvePartitions(t *testing.T) {
	external := map[string]int32{"words": 6, "other": 12, "second": 3}
	tests := map[string]struct {
		build func(b *topology.Builder)
		want  string
	}{
		"as its source": {func(b *topology.Builder) {
			repartition(topology.From(b, wordsTopic), "r").Into(outTopic)
		}, "map[app-r-repartition:6]"},
		"explicit": {func(b *topology.Builder) {
			repartition(topology.From(b, wordsTopic), "r", topology.Partitions(20)).Into(outTopic)
		}, "map[app-r-repartition:20]"},
		"chain": {func(b *topology.Builder) {
			repartition(repartition(repartition(topology.From(b, wordsTopic), "c"), "a"), "b").Into(outTopic)
		}, "map[app-a-repartition:6 app-b-repartition:6 app-c-repartition:6]"},
		"chain from an explicit one": {func(b *topology.Builder) {
			s := repartition(topology.From(b, wordsTopic), "c", topology.Partitions(9))
			repartition(repartition(s, "a"), "b").Into(outTopic)
		}, "map[app-a-repartition:9 app-b-repartition:9 app-c-repartition:9]"},
		"the largest of several": {func(b *topology.Builder) {
			left := repartition(topology.From(b, wordsTopic), "left")
			right := repartition(topology.From(b, otherTopic), "right")
			left.Merge("both", right).Into(outTopic)
		}, "map[app-left-repartition:12 app-right-repartition:12]"},
		"a neighbour fixes it": {func(b *topology.Builder) {
			left := repartition(topology.From(b, wordsTopic), "left")
			right := repartition(topology.From(b, otherTopic), "right", topology.Partitions(2))
			left.Merge("both", right).Into(outTopic)
		}, "map[app-left-repartition:2 app-right-repartition:2]"},
		"an external source fixes it": {func(b *topology.Builder) {
			r := repartition(topology.From(b, otherTopic), "r")
			r.Merge("both", topology.From(b, secondTopic)).Into(outTopic)
		}, "map[app-r-repartition:3]"},
		"back to its own subtopology": {func(b *topology.Builder) {
			s := topology.From(b, wordsTopic)
			topology.Stateful(s, "first", countStore).Process(idle)
			topology.Stateful(repartition(s, "r"), "second", countStore).Process(idle)
		}, "map[app-r-repartition:6]"},
		// Subtopologies x and y feed each other; a third one feeds x.
		"a circle": {func(b *topology.Builder) {
			x := topology.KeyValueStore("x", schemas.String(), schemas.String())
			intoX := repartition(topology.From(b, wordsTopic), "into-x")
			topology.Stateful(intoX, "x1", x).Process(idle)
			y := repartition(intoX, "y")
			topology.Stateful(repartition(y, "back"), "x2", x).Process(idle)
		}, "map[app-back-repartition:6 app-into-x-repartition:6 app-y-repartition:6]"},
		"they disagree": {func(b *topology.Builder) {
			r := repartition(topology.From(b, wordsTopic), "r", topology.Partitions(5))
			r.Merge("both", topology.From(b, otherTopic)).Into(outTopic)
		}, "topology app: subtopology other reads topics with different numbers of partitions: " +
			"app-r-repartition has 5, other has 12; make them equal, or send one of the streams through " +
			"Repartition"},
		"unknown": {func(b *topology.Builder) {
			s := topology.From(b, topology.Topic("nowhere", schemas.String(), schemas.String()))
			repartition(s, "r").Into(outTopic)
		}, "topology app: subtopology nowhere: the number of partitions is not known of nowhere\n" +
			"topology app: subtopology r: the number of partitions is not known of app-r-repartition"},
	}
	for name, test := range tests {
		b := topology.NewBuilder("app")
		test.build(b)
		internal, err := mustBuild(t, b).ResolvePartitions(external)
		got := fmt.Sprint(internal)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

func TestCheckPartitions(t *testing.T) {
	b := topology.NewBuilder("app")
	topology.From(b, wordsTopic).Merge("both", topology.From(b, otherTopic)).Into(outTopic)
	topology.From(b, secondTopic).Peek("alone", ignore)
	built := mustBuild(t, b)
	fits := map[string]int32{"words": 4, "other": 4, "second": 9, "out": 1}
	if err := built.CheckPartitions(fits); err != nil {
		t.Error(err)
	}
	err := built.CheckPartitions(map[string]int32{"words": 4, "other": 5})
	want := "topology app: subtopology other reads topics with different numbers of partitions: " +
		"other has 5, words has 4; make them equal, or send one of the streams through Repartition\n" +
		"topology app: subtopology second: the number of partitions is not known of second"
	if fmt.Sprint(err) != want {
		t.Errorf("the error is\n%v\nwant\n%s", err, want)
	}
	err = built.CheckPartitions(nil)
	if err == nil || !strings.Contains(err.Error(), "not known of other, words") {
		t.Errorf("no counts: %v", err)
	}
}

// TestResolveKeptPartitions: a repartition topic whose number is known keeps it, and so does what
// follows from it. One that declares its number has that.
func TestResolveKeptPartitions(t *testing.T) {
	b := topology.NewBuilder("app")
	first := repartition(topology.From(b, wordsTopic), "first")
	repartition(first, "second").Into(outTopic)
	repartition(topology.From(b, otherTopic), "declared", topology.Partitions(20)).Peek("end", ignore)
	got, err := mustBuild(t, b).ResolvePartitions(map[string]int32{
		"words": 6, "other": 12, "app-first-repartition": 4, "app-declared-repartition": 5,
	})
	want := "map[app-declared-repartition:20 app-first-repartition:4 app-second-repartition:4]"
	if fmt.Sprint(got) != want || err != nil {
		t.Errorf("the numbers are %v, %v, want %s", got, err, want)
	}
}
