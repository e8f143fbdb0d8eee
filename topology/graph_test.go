package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

func TestAcceptedRecord(t *testing.T) {
	k := openTask(t, fanOut(t), fanTask, baseConfig())
	v := want(t, k.words("a", "fine"), graph.Accept)
	if got, want := lines(v.Outputs), `out "a"="fine"; second "a"="fine"`; got != want {
		t.Errorf("outputs: %s\nwant: %s", got, want)
	}
	if got := countsOf(v); got != "count.seen=1" {
		t.Errorf("counts: %s", got)
	}
	if got := k.entries(countStore); got != "a=1" {
		t.Errorf("store: %s", got)
	}
}

// TestDiamond: a merge is one node, and a record comes once through each edge.
func TestDiamond(t *testing.T) {
	b := topology.NewBuilder("diamond")
	source := topology.From(b, wordsTopic)
	side := func(name string) words {
		return topology.MapValues(source, name, func(v string) (string, error) {
			return v + "-" + name, nil
		})
	}
	left, right := side("left"), side("right")
	merged := left.Merge("merge", right)
	factories := 0
	n := topology.Stateful(merged, "count", countStore)
	out := topology.Outlet[string, string](n, "out")
	n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		factories++
		emit, counts := out.In(t), countStore.In(t)
		return func(c *topology.Context, r word) error {
			n, _, err := counts.Get("all")
			if err != nil {
				return err
			}
			if err := counts.Put("all", n+1); err != nil {
				return err
			}
			return emit(c, r)
		}, nil
	})
	out.Stream().Into(outTopic)
	built := mustBuild(t, b)
	k := openTask(t, built, fanTask, baseConfig())
	v := want(t, k.words("a", "x"), graph.Accept)
	if got, want := lines(v.Outputs), `out "a"="x-left"; out "a"="x-right"`; got != want {
		t.Errorf("outputs: %s\nwant: %s", got, want)
	}
	if got := k.entries(countStore); got != "all=2" {
		t.Errorf("store: %s", got)
	}
	if factories != 1 {
		t.Errorf("the factory ran %d times for one task", factories)
	}
	openTask(t, built, fanTask, baseConfig())
	if factories != 2 {
		t.Errorf("the factory ran %d times for two tasks", factories)
	}
}

func TestSplit(t *testing.T) {
	b := topology.NewBuilder("split")
	split := topology.From(b, wordsTopic).Split("by-key")
	first := split.Case("first", func(r word) (bool, error) { return r.Key != "z", nil })
	second := split.Case("second", func(r word) (bool, error) { return r.Key == "b", nil })
	rest := split.Otherwise("rest")
	first.Into(outTopic)
	second.Into(secondTopic)
	rest.Into(otherTopic)
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	for key, topic := range map[string]string{"a": "out", "b": "out", "z": "other"} {
		v := want(t, k.words(key, "v"), graph.Accept)
		if got, want := lines(v.Outputs), fmt.Sprintf(`%s %q="v"`, topic, key); got != want {
			t.Errorf("outputs: %s, want %s", got, want)
		}
	}
}

func TestFlatMapAndKeys(t *testing.T) {
	b := topology.NewBuilder("flat")
	source := topology.From(b, wordsTopic)
	split := topology.FlatMap(source, "letters", func(r word, emit func(word) error) error {
		for _, letter := range r.Value {
			if err := emit(topology.WithValue(r, string(letter))); err != nil {
				return err
			}
		}
		return nil
	})
	keyed := topology.SelectKey(split, "by-letter", func(r word) (string, error) { return r.Value, nil })
	topology.Map(keyed, "swap", func(r word) (word, error) {
		if r.Value == "!" {
			return word{}, topology.Fail(topology.Validation, schemas.Reason("told to fail"))
		}
		return word{Key: r.Value, Value: "letter"}, nil
	}).Peek("look", ignore).Into(outTopic)
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	v := want(t, k.words("k", "xyx"), graph.Accept)
	if got, want := lines(v.Outputs), `out "x"="letter"; out "y"="letter"; out "x"="letter"`; got != want {
		t.Errorf("outputs: %s\nwant: %s", got, want)
	}
	v = want(t, k.words("k", "xy!"), topology.Stop)
	if v.Failure.Node != "swap" || len(v.Outputs) != 0 {
		t.Errorf("failure %v with %d outputs", v.Failure, len(v.Outputs))
	}
}

// TestEmitOutOfTurn: an Emit that escapes from its node does nothing.
func TestEmitOutOfTurn(t *testing.T) {
	b := topology.NewBuilder("escape", topology.DeadLetters("dead"))
	var escaped topology.Emit[string, string]
	var context *topology.Context
	n := topology.Stateful(topology.From(b, wordsTopic), "first")
	out := topology.Outlet[string, string](n, "out")
	n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		escaped = out.In(t)
		return func(c *topology.Context, r word) error { context = c; return escaped(c, r) }, nil
	})
	out.Stream().Peek("thief", func(r word) error {
		if r.Value == "steal" {
			return escaped(context, r)
		}
		return nil
	}).Into(outTopic)
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	want(t, k.words("a", "fine"), graph.Accept)
	if err := escaped(context, word{}); err == nil || topology.ClassOf(err) != topology.Fatal {
		t.Errorf("emitting between two records returns %v", err)
	}
	want(t, k.words("a", "steal"), topology.Stop)
	v := want(t, k.words("a", "fine"), graph.Accept)
	if got := lines(v.Outputs); got != `out "a"="fine"` {
		t.Errorf("outputs: %s", got)
	}
}

func TestForeignRecordStops(t *testing.T) {
	k := openTask(t, fanOut(t, topology.DeadLetters("dead")), fanTask, baseConfig())
	in := k.input("elsewhere", nil, nil)
	want(t, k.graph.Process(in), topology.Stop)
	in = k.input("words", []byte("a"), []byte("b"))
	in.Partition = 1
	want(t, k.graph.Process(in), topology.Stop)
}

func TestSetup(t *testing.T) {
	b := topology.NewBuilder("setup")
	n := topology.Stateful(topology.From(b, wordsTopic), "node")
	used, unused := topology.Outlet[string, string](n, "used"), topology.Outlet[string, string](n, "unused")
	if used.Connected() || unused.Connected() {
		t.Error("an outlet is connected before anything uses it")
	}
	n.Process(func(s *topology.Setup) (topology.Handler[string, string], error) {
		if !used.Connected() || unused.Connected() {
			t.Errorf("connected: used %v, unused %v", used.Connected(), unused.Connected())
		}
		if s.Node() != "node" || s.Application() != "setup" || s.Task() != (graph.TaskID{Subtopology: "words", Partition: 3}) {
			t.Errorf("setup of %s, %s, %s", s.Node(), s.Application(), s.Task())
		}
		emit, none, counter := used.In(s), unused.In(s), s.Counter("none")
		return func(c *topology.Context, r word) error {
			if c.Task() != s.Task() || c.Application() != "setup" || c.Attempt() != 2 || c.StreamTime() != 5 {
				t.Errorf("context of %s, %s, attempt %d, stream time %d",
					c.Task(), c.Application(), c.Attempt(), c.StreamTime())
			}
			counter.Add(0)
			return errors.Join(emit(c, r), none(c, r))
		}, nil
	})
	used.Stream().Into(outTopic)
	k := openTask(t, mustBuild(t, b), graph.TaskID{Subtopology: "words", Partition: 3}, baseConfig())
	v := want(t, k.graph.Process(graph.Input{
		Topic: "words", Partition: 3, Key: []byte("k"), Value: []byte("v"), Attempt: 2, StreamTime: 5,
	}), graph.Accept)
	if len(v.Outputs) != 1 || len(v.Counts) != 0 {
		t.Errorf("%d outputs, %d counts", len(v.Outputs), len(v.Counts))
	}
}

func TestNewGraphErrors(t *testing.T) {
	type setup = topology.Setup
	type handler = topology.Handler[string, string]
	failing := func(factory func(*setup) (handler, error)) *topology.Topology {
		b := topology.NewBuilder("failing", topology.DeadLetters("dead"))
		topology.Stateful(topology.From(b, wordsTopic), "node").Process(factory)
		return mustBuild(t, b)
	}
	foreign := topology.Outlet[string, string](
		topology.Stateful(topology.From(topology.NewBuilder("foreign"), wordsTopic), "node"), "out")
	noop := func(*topology.Context, word) error { return nil }
	good := failing(func(*setup) (handler, error) { return noop, nil })
	config := func(change func(cfg *topology.GraphConfig)) topology.GraphConfig {
		cfg := baseConfig()
		change(&cfg)
		return cfg
	}
	tests := []struct {
		want string
		t    *topology.Topology
		id   graph.TaskID
		cfg  topology.GraphConfig
	}{
		{"no subtopology", good, graph.TaskID{Subtopology: "nowhere"}, baseConfig()},
		{"negative", good, graph.TaskID{Subtopology: "words", Partition: -1}, baseConfig()},
		{"needs Partitions and Now", good, fanTask, topology.GraphConfig{}},
		{"number of partitions of topic dead", good, fanTask, config(func(c *topology.GraphConfig) {
			c.Partitions = func(string) int32 { return 0 }
		})},
		{"needs at least", good, fanTask, config(func(c *topology.GraphConfig) {
			c.MaxMessageBytes = func(string) int32 { return 1000 }
		})},
		{"is compacted", good, fanTask, config(func(c *topology.GraphConfig) {
			c.Compacted = func(topic string) bool { return topic == "dead" }
		})},
		{"needs a State", fanOut(t), fanTask, baseConfig()},
		{"no luck", failing(func(*setup) (handler, error) { return nil, errors.New("no luck") }), fanTask,
			baseConfig()},
		{"handler is nil", failing(func(*setup) (handler, error) { return nil, nil }), fanTask, baseConfig()},
		{"panic with a value of type string", failing(func(*setup) (handler, error) { panic("no") }), fanTask,
			baseConfig()},
		{"not declared by node node", failing(func(s *setup) (handler, error) {
			counts := countStore.In(s)
			if err := counts.Put("a", 1); err == nil {
				t.Error("writing to a store that is not declared succeeds")
			}
			return noop, nil
		}), fanTask, baseConfig()},
		{"outlet of another node", failing(func(s *setup) (handler, error) {
			foreign.In(s)
			return noop, nil
		}), fanTask, baseConfig()},
		{"name of a counter", failing(func(s *setup) (handler, error) {
			s.Counter("a b")
			return noop, nil
		}), fanTask, baseConfig()},
	}
	for _, test := range tests {
		_, err := test.t.NewGraph(test.id, nil, test.cfg)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("the error is %v, want one with %q", err, test.want)
		}
	}
}

// TestTopologyIsShared: graphs of one topology run side by side. The race detector is the judge.
func TestTopologyIsShared(t *testing.T) {
	built := fanOut(t, topology.DeadLetters("dead"))
	var wg sync.WaitGroup
	for p := range int32(4) {
		k := openTask(t, built, graph.TaskID{Subtopology: "words", Partition: p}, baseConfig())
		wg.Go(func() {
			for i := range 200 {
				in := k.input("words", []byte("k"), []byte([]string{"fine", "plain", "panic"}[i%3]))
				in.Partition = p
				k.graph.Process(in)
				_ = built.Describe() + built.Fingerprint()
			}
		})
	}
	wg.Wait()
}
