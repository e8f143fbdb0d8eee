package topology_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// described are the topologies of testdata/describe.txt. Each is a list of parts that do not depend
// on each other.
var described = map[string][]func(b *topology.Builder){
	"copy": {func(b *topology.Builder) { topology.From(b, wordsTopic).Into(outTopic) }},
	"word-count": {func(b *topology.Builder) {
		lines := topology.From(b, wordsTopic)
		split := topology.FlatMap(lines, "split", func(word, func(word) error) error { return nil })
		keyed := topology.SelectKey(split, "by-word", upper)
		moved := topology.RepartitionWith(keyed, "words-by-word", schemas.String(), schemas.String())
		topology.Process(moved, "count", countStore, drop).Into(outTopic)
	}},
	// One part ends with three outlets and the dead letters of a node; the others are joined by a
	// store, by a loop through a topic, or by nothing.
	"many": {
		func(b *topology.Builder) {
			n := topology.Stateful(topology.From(b, wordsTopic), "inbox", seenStore, payloadStore)
			n.Process(idle)
			topology.Outlet[string, string](n, "accepted").Stream().Into(outTopic)
			topology.Outlet[string, string](n, "conflicts").Stream().Into(secondTopic)
			topology.Outlet[string, int64](n, "unused")
		},
		func(b *topology.Builder) {
			topology.Stateful(topology.From(b, otherTopic), "audit", payloadStore).Process(idle)
		},
		func(b *topology.Builder) {
			loop := topology.Topic("loop", schemas.String(), schemas.String())
			split := topology.From(b, loop).Split("again")
			split.Case("once-more", pass).Into(loop, topology.Feedback())
			split.Otherwise("done")
		},
		func(b *topology.Builder) {
			s := topology.From(b, topology.Topic("diamond", schemas.String(), schemas.String()))
			left, right := s.Filter("left", pass), s.Filter("right", pass)
			merged := left.Merge("together", right)
			topology.RepartitionWith(merged, "zz", schemas.String(), schemas.String(), topology.Partitions(3)).
				Peek("end", ignore)
		},
	},
}

var (
	seenStore    = topology.KeyValueStore("seen", schemas.String(), schemas.Int64())
	payloadStore = topology.KeyValueStore("payloads", schemas.String(), schemas.String())
)

func build(tb testing.TB, name string, order []int) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder(name)
	for _, i := range order {
		described[name][i](b)
	}
	return mustBuild(tb, b)
}

func ascending(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// TestDescribe compares descriptions, and all else that users and runtimes are told, with
// testdata/describe.txt. Run it with -rewrite to write the file anew.
func TestDescribe(t *testing.T) {
	datadriven.RunTest(t, "testdata/describe.txt", func(t *testing.T, d *datadriven.TestData) string {
		name := d.CmdArgs[0].Key
		built := build(t, name, ascending(len(described[name])))
		switch d.Cmd {
		case "describe":
			return built.Describe()
		case "fingerprint":
			return built.Fingerprint() + "\n"
		case "subtopologies":
			return subtopologies(built)
		}
		d.Fatalf(t, "there is no command %s", d.Cmd)
		return ""
	})
}

func subtopologies(t *topology.Topology) string {
	var s strings.Builder
	for _, sub := range t.Subtopologies() {
		fmt.Fprintf(&s, "%s\n", sub.Name)
		for _, source := range sub.Sources {
			fmt.Fprintf(&s, "  source %+v\n", source)
		}
		for _, store := range sub.Stores {
			fmt.Fprintf(&s, "  store %+v\n", store)
		}
		fmt.Fprintf(&s, "  sinks %v\n", sub.Sinks)
	}
	return s.String()
}

// TestOrderOfDeclarations: nothing that anybody is told depends on it.
func TestOrderOfDeclarations(t *testing.T) {
	for name, parts := range described {
		built := build(t, name, ascending(len(parts)))
		for seed := range uint64(30) {
			order := rand.New(rand.NewPCG(seed, 1)).Perm(len(parts))
			other := build(t, name, order)
			if got, want := other.Describe(), built.Describe(); got != want {
				t.Errorf("%s in order %v:\n%s\nwant:\n%s", name, order, got, want)
			}
			if got, want := subtopologies(other), subtopologies(built); got != want {
				t.Errorf("%s in order %v:\n%s\nwant:\n%s", name, order, got, want)
			}
			if other.Fingerprint() != built.Fingerprint() {
				t.Errorf("%s in order %v has another fingerprint", name, order)
			}
		}
	}
}

// TestFingerprint changes one thing at a time. What counts as a change is told apart from what does
// not.
func TestFingerprint(t *testing.T) {
	type change struct {
		topic  string
		value  schemas.Codec[string]
		store  string
		counts schemas.Codec[int64]
		node   string
		outlet string
		opts   []topology.BuilderOption
		source []topology.SourceOption
		parts  []topology.RepartitionOption
	}
	fingerprint := func(f func(c *change)) string {
		c := change{"words", schemas.String(), "counts", schemas.Int64(), "node", "out", nil, nil, nil}
		f(&c)
		b := topology.NewBuilder("fingerprint", c.opts...)
		s := topology.From(b, topology.Topic(c.topic, schemas.String(), c.value), c.source...)
		n := topology.Stateful(s, c.node, topology.KeyValueStore(c.store, schemas.String(), c.counts))
		n.Process(idle)
		s = topology.Outlet[string, string](n, c.outlet).Stream()
		topology.RepartitionWith(s, "by", schemas.String(), schemas.String(), c.parts...).Into(outTopic)
		return mustBuild(t, b).Fingerprint()
	}
	base := fingerprint(func(*change) {})
	if len(base) != 32 {
		t.Errorf("the fingerprint is %q", base)
	}
	for name, test := range map[string]struct {
		f       func(c *change)
		changed bool
	}{
		"topic":       {func(c *change) { c.topic = "others" }, true},
		"topic codec": {func(c *change) { c.value = schemas.JSON[string]() }, true},
		"store":       {func(c *change) { c.store = "other" }, true},
		"store codec": {func(c *change) { c.counts = schemas.JSON[int64]() }, true},
		"node":        {func(c *change) { c.node = "other" }, true},
		"outlet":      {func(c *change) { c.outlet = "other" }, true},
		"dead letters": {func(c *change) {
			c.opts = append(c.opts, topology.DeadLetters("dead"), topology.DeadLetterStacks())
		}, false},
		"policy": {func(c *change) {
			c.opts = append(c.opts, topology.OnError(topology.Poison, topology.Policy{Action: topology.Stop}))
		}, false},
		"start":      {func(c *change) { c.source = append(c.source, topology.StartAt(now)) }, false},
		"partitions": {func(c *change) { c.parts = append(c.parts, topology.Partitions(12)) }, false},
	} {
		if changed := fingerprint(test.f) != base; changed != test.changed {
			t.Errorf("another %s changes the fingerprint: %v, want %v", name, changed, test.changed)
		}
	}
}

func TestStart(t *testing.T) {
	b := topology.NewBuilder("start")
	for i, opts := range [][]topology.SourceOption{
		nil, {topology.StartEarliest()}, {topology.StartLatest()}, {topology.StartAt(now)},
	} {
		topic := topology.Topic(fmt.Sprintf("t%d", i), schemas.String(), schemas.String())
		first := topology.From(b, topic, opts...)
		if second := topology.From(b, topic, opts...); second != first {
			t.Error("a topic that is named twice is two sources")
		}
	}
	var got []string
	for _, sub := range mustBuild(t, b).Subtopologies() {
		got = append(got, sub.Sources[0].Start.String())
	}
	if want := "[earliest earliest latest 2026-03-01T12:00:00Z]"; fmt.Sprint(got) != want {
		t.Errorf("starts: %v, want %s", got, want)
	}
}
