package topology_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// fixedKeys is a topology with a node that keeps the first record, and resumes it with every
// record after it and with the clock. punctuate has the clock emit a record of its own too. The
// outputs of the node go to "out", with the topic's timestamp after the value.
func fixedKeys(tb testing.TB, punctuate bool) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	node := topology.Stateful(topology.From(b, wordsTopic), "keep")
	out := topology.FixedKeyOutlet[string](node, "out")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := out.In(t)
		var first *word
		var deferred topology.Deferred
		release := func(c *topology.Context) error {
			return topology.Resume(c, *first, deferred, func(r word) error {
				return emit(c, topology.FixedKey("again "+r.Value))
			})
		}
		t.OnWallClock(time.Second, func(c *topology.Context, _ time.Time) error {
			if punctuate {
				return emit(c, topology.FixedKey("clock"))
			}
			return release(c)
		})
		return func(c *topology.Context, r word) error {
			if first == nil {
				first, deferred = &word{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers}, topology.DeferredOf(c, r)
				return nil
			}
			if err := release(c); err != nil {
				return err
			}
			if r.Value == "fail" {
				return topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			if err := emit(c, topology.FixedKey(r.Value)); err != nil {
				return err
			}
			return emit(c, topology.FixedKeyRecord[string]{
				Value: "at", Timestamp: now.UnixMilli() - 7, Headers: []topology.Header{{Key: "of", Value: []byte("own")}},
			})
		}, nil
	})
	out.Stream().Into(outTopic)
	return mustBuild(tb, b)
}

// TestFixedKeyOutlet: an emitted record has the key of the record that is handled. So it is for a
// deferred record that is resumed, for a record after it, and after one that has failed.
func TestFixedKeyOutlet(t *testing.T) {
	k := openTask(t, fixedKeys(t, false), graph.TaskID{Subtopology: "words"}, baseConfig())
	var written []graph.Output
	send := func(key, value string, action topology.Action) {
		in := k.input("words", []byte(key), []byte(value))
		in.Headers = []topology.Header{{Key: "of", Value: []byte("in")}}
		if v := want(t, k.graph.Process(in), action); action == graph.Accept {
			written = append(written, clones(v)...)
		}
	}
	send("a", "first", graph.Accept)
	send("b", "second", graph.Accept)
	send("c", "fail", graph.DeadLetter)
	send("d", "fourth", graph.Accept)
	p, ok := k.graph.Due(now.Add(time.Second))
	if !ok {
		t.Fatal("nothing is due")
	}
	written = append(written, clones(want(t, k.graph.Punctuate(p), graph.Accept))...)
	if got, want := lines(written), strings.Join([]string{
		`out "a"="again first"`, `out "b"="second"`, `out "b"="at"`,
		`out "a"="again first"`, `out "d"="fourth"`, `out "d"="at"`,
		`out "a"="again first"`,
	}, "; "); got != want {
		t.Errorf("written\n%s\nwant\n%s", got, want)
	}
	for _, out := range written {
		at, of := now.UnixMilli(), "in"
		if string(out.Value) == "at" {
			at, of = at-7, "own"
		}
		if out.Timestamp != at || len(out.Headers) != 1 || string(out.Headers[0].Value) != of {
			t.Errorf("%s has time %d and headers %v, want %d and %s", out.Value, out.Timestamp, out.Headers, at, of)
		}
	}
}

// TestFixedKeyOutletInPunctuation: a punctuation handles no record, so that there is no key. The
// failure is that of the punctuation, although a record was handled before.
func TestFixedKeyOutletInPunctuation(t *testing.T) {
	k := openTask(t, fixedKeys(t, true), graph.TaskID{Subtopology: "words"}, baseConfig())
	want(t, k.words("a", "first"), graph.Accept)
	want(t, k.words("b", "second"), graph.Accept)
	p, ok := k.graph.Due(now.Add(time.Second))
	if !ok {
		t.Fatal("nothing is due")
	}
	v := k.graph.Punctuate(p)
	if v.Action != graph.Stop || v.Failure.Class != topology.Fatal || !strings.Contains(v.Failure.Error(), "a FixedKeyOutlet has no key") {
		t.Errorf("the verdict is %s: %v", v.Action, v.Failure)
	}
}

// TestFixedKeyOutletBehindAPunctuation: a record that a punctuation makes has a key like any other.
func TestFixedKeyOutletBehindAPunctuation(t *testing.T) {
	b := topology.NewBuilder("app")
	clock := topology.Stateful(topology.From(b, wordsTopic), "clock")
	ticks := topology.Outlet[string, string](clock, "ticks")
	clock.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := ticks.In(t)
		t.OnWallClock(time.Second, func(c *topology.Context, _ time.Time) error { return emit(c, word{Key: "clock", Value: "tick"}) })
		return func(*topology.Context, word) error { return nil }, nil
	})
	topology.ProcessValues(ticks.Stream(), "behind", countStore, func(
		c *topology.Context, _ state.KeyValue[string, int64], r word, emit topology.EmitFixedKey[string],
	) error {
		return emit(c, topology.FixedKey(r.Value+" seen"))
	}).Into(outTopic)
	k := openTask(t, mustBuild(t, b), graph.TaskID{Subtopology: "words"}, baseConfig())
	p, ok := k.graph.Due(now.Add(time.Second))
	if !ok {
		t.Fatal("nothing is due")
	}
	if got, want := lines(want(t, k.graph.Punctuate(p), graph.Accept).Outputs), `out "clock"="tick seen"`; got != want {
		t.Errorf("written %s, want %s", got, want)
	}
}

// TestFixedKeyOutletOfOthers: an outlet belongs to its node, and an emit to the turn of its node.
func TestFixedKeyOutletOfOthers(t *testing.T) {
	b := topology.NewBuilder("app")
	source := topology.From(b, wordsTopic)
	other := topology.Stateful(source, "other")
	out := topology.FixedKeyOutlet[string](other, "out")
	other.Process(idle)
	node := topology.Stateful(source, "node")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := out.In(t)
		return func(c *topology.Context, r word) error { return emit(c, topology.FixedKey(r.Value)) }, nil
	})
	_, err := mustBuild(t, b).NewGraph(graph.TaskID{Subtopology: "words"}, nil, baseConfig())
	if err == nil || !strings.Contains(err.Error(), "node node uses an outlet of another node") {
		t.Errorf("NewGraph returned %v", err)
	}

	b = topology.NewBuilder("app")
	var late func() error
	owner := topology.Stateful(topology.From(b, wordsTopic), "owner")
	way := topology.FixedKeyOutlet[string](owner, "out")
	owner.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := way.In(t)
		return func(c *topology.Context, _ word) error {
			late = func() error { return emit(c, topology.FixedKey("late")) }
			return nil
		}, nil
	})
	way.Stream().Into(outTopic)
	k := openTask(t, mustBuild(t, b), graph.TaskID{Subtopology: "words"}, baseConfig())
	want(t, k.words("a", "x"), graph.Accept)
	if err := late(); err == nil || topology.ClassOf(err) != topology.Fatal {
		t.Errorf("an emit after its turn returned %v", err)
	}
}

// TestFixedKeyOutletMistakes: the names of outlets are checked as those of any other.
func TestFixedKeyOutletMistakes(t *testing.T) {
	b := topology.NewBuilder("mistakes")
	s := topology.From(b, wordsTopic)
	node := topology.Stateful(s, "node")
	topology.Outlet[string, string](node, "twice")
	topology.FixedKeyOutlet[string](node, "twice")
	node.Process(idle)
	topology.ProcessValues[string, string, state.KeyValue[string, int64], string](s, "nothing", countStore, nil)
	var texts []string
	for _, m := range mistakesOf(t, b) {
		texts = append(texts, m.Node+": "+m.Err.Error())
	}
	if got, want := strings.Join(texts, "\n"), "node.twice: the node has an outlet of that name\nnothing: the function is nil"; got != want {
		t.Errorf("mistakes:\n%s\nwant\n%s", got, want)
	}
}
