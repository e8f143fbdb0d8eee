package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// trying is a topology whose first node counts and passes on each word of a record's value in a Try
// of its own, and whose second one ends by the word. What was refused goes to another topic.
func trying(tb testing.TB, opts ...topology.NodeOption) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder("trying", topology.DeadLetters("dead"))
	node := topology.Stateful(topology.From(b, wordsTopic), "try", countStore)
	out := topology.Outlet[string, string](node, "tried")
	refused := topology.Outlet[string, string](node, "refused")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		counts, emit, refuse := countStore.In(t), out.In(t), refused.In(t)
		before, seen, after := t.Counter("before"), t.Counter("seen"), t.Counter("after")
		one := func(c *topology.Context, r word) error {
			n, _, err := counts.Get(r.Key)
			if err == nil {
				err = counts.Put(r.Key, n+1)
			}
			if err == nil {
				err = counts.Put(r.Value, 1)
			}
			if err != nil {
				return err
			}
			seen.Inc()
			return emit(c, r)
		}
		f := func(c *topology.Context, r word) error {
			before.Inc()
			for _, w := range strings.Fields(r.Value) {
				failure, err := c.Try(func() error { return one(c, topology.WithValue(r, w)) })
				if err == nil && failure != nil {
					err = refuse(c, topology.WithValue(r, failure.Error()))
				}
				if err != nil {
					return err
				}
			}
			after.Inc()
			return nil
		}
		t.OnWallClock(time.Second, func(c *topology.Context, _ time.Time) error {
			return f(c, word{Key: "clock", Value: "x poison y"})
		})
		return f, nil
	})
	topology.MapValuesWithRecord(out.Stream(), "judge", judge, opts...).Into(outTopic)
	refused.Stream().Into(secondTopic)
	return mustBuild(tb, b)
}

// TestTry: what would be a dead letter leaves no trace and is handed back, in the turn of its node,
// and the rest of the unit stays.
func TestTry(t *testing.T) {
	k := openTask(t, trying(t), fanTask, baseConfig())
	for value, reason := range map[string]string{
		"poison": "poison: told to fail", "validation": "validation: told to fail", "conflict": "conflict: told to fail",
		"plain": "poison: error of type *errors.errorString", "panic": "poison: panic with a value of type string",
	} {
		v := want(t, k.words(value, "a "+value+" b"), graph.Accept)
		wanted := fmt.Sprintf("out %[1]q=%[3]q; second %[1]q=%[2]q; out %[1]q=%[4]q", value, "node judge: "+reason, "a", "b")
		if got := lines(v.Outputs); got != wanted {
			t.Errorf("%s: the outputs are %s, want %s", value, got, wanted)
		}
		if got := countsOf(v); got != "try.before=1 try.seen=2 try.after=1" {
			t.Errorf("%s: the counts are %s", value, got)
		}
	}
	if got, wanted := k.entries(countStore), "a=1 b=1 conflict=2 panic=2 plain=2 poison=2 validation=2"; got != wanted {
		t.Errorf("the store has %s, want %s", got, wanted)
	}
}

// TestTryFailsTheUnit: what is tried again, or stops, is about the record at work, and leaves
// nothing of the unit.
func TestTryFailsTheUnit(t *testing.T) {
	k := openTask(t, trying(t), fanTask, baseConfig())
	in := k.input("words", []byte("k"), []byte("a transient b"))
	for ; in.Attempt < 10; in.Attempt++ {
		want(t, k.graph.Process(in), topology.Retry)
	}
	if got := k.entries(countStore); got != "" {
		t.Errorf("the store has %s", got)
	}
	v := want(t, k.graph.Process(in), graph.Accept) // the last attempt ends in a dead letter, which is not made
	const wanted = `out "k"="a"; second "k"="node judge: transient: told to fail (attempt 10)"; out "k"="b"`
	if got := lines(v.Outputs); got != wanted {
		t.Errorf("the outputs are %s, want %s", got, wanted)
	}
	for _, class := range []string{"config", "corruption", "fatal"} {
		want(t, k.words("k", "a "+class), topology.Stop)
	}
	k = openTask(t, trying(t, topology.OnError(topology.Poison, topology.Policy{Action: topology.Stop})), fanTask, baseConfig())
	if v := want(t, k.words("k", "a poison"), topology.Stop); v.Failure.Node != "judge" {
		t.Errorf("node %s has failed", v.Failure.Node)
	}
}

// TestTryInPunctuation: what a punctuation takes up does not stop the task.
func TestTryInPunctuation(t *testing.T) {
	k := openTask(t, trying(t), fanTask, baseConfig())
	p, ok := k.graph.Due(now.Add(time.Second))
	if !ok {
		t.Fatal("nothing is due")
	}
	v := want(t, k.graph.Punctuate(p), graph.Accept)
	if got := lines(v.Outputs); got != `out "clock"="x"; second "clock"="node judge: poison: told to fail, in a punctuation on `+
		`the wall clock every 1s"; out "clock"="y"` {
		t.Errorf("the outputs are %s", got)
	}
}

// TestTryAgain: where the policy is to park or to delay, a punctuation has no record for that, and
// says so; a limit of attempts is one as ever.
func TestTryAgain(t *testing.T) {
	for _, policy := range []topology.Policy{
		{Action: topology.Park, Attempts: 2, Backoff: time.Second, BackoffMax: time.Second, Then: topology.DeadLetter},
		{Action: topology.Delay, Attempts: 2, Then: topology.DeadLetter},
	} {
		var seen []string
		b := topology.NewBuilder("again", topology.DeadLetters("dead"))
		node := topology.Stateful(topology.From(b, wordsTopic, topology.ParkKeys(), topology.RetryTopics(time.Second)), "try")
		out := topology.Outlet[string, string](node, "out")
		node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
			emit := out.In(t)
			t.OnWallClock(time.Second, func(c *topology.Context, _ time.Time) error {
				for _, value := range []string{"transient", "poison"} {
					refused, err := c.Try(func() error { return emit(c, word{Key: "k", Value: value}) })
					if err != nil || refused == nil {
						return topology.Fail(topology.Fatal, schemas.Reason("it is not refused"))
					}
					seen = append(seen, fmt.Sprintf("%s %t", refused.Class, refused.Again))
				}
				return nil
			})
			return func(*topology.Context, word) error { return nil }, nil
		})
		topology.MapValuesWithRecord(out.Stream(), "judge", judge, topology.OnError(topology.Transient, policy)).Into(outTopic)
		k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
		p, ok := k.graph.Due(now.Add(time.Second))
		if !ok {
			t.Fatal("nothing is due")
		}
		for range 2 {
			want(t, k.graph.Punctuate(p), graph.Accept)
			p.Attempt++
		}
		if got := strings.Join(seen, "; "); got != "transient true; poison false; transient false; poison false" {
			t.Errorf("%s: it is told %q", policy.Action, got)
		}
	}
}

// TestTryNested: the inner one is undone alone, and the outer one with it.
func TestTryNested(t *testing.T) {
	b := topology.NewBuilder("nested")
	node := topology.Stateful(topology.From(b, wordsTopic), "node", countStore)
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		counts := countStore.In(t)
		return func(c *topology.Context, r word) error {
			put := func(key string) error { return counts.Put(r.Key+key, 1) }
			fail := func(key string) error {
				if err := put(key); err != nil {
					return err
				}
				return schemas.Reason("refused")
			}
			refused, err := c.Try(func() error {
				if err := put(" outer"); err != nil {
					return err
				}
				if refused, err := c.Try(func() error { return fail(" inner") }); err != nil || refused == nil {
					return topology.Fail(topology.Fatal, schemas.Reason("the inner one was not refused"))
				}
				if r.Value == "outer" {
					return fail(" again")
				}
				return nil
			})
			if (refused != nil) != (r.Value == "outer") {
				return topology.Fail(topology.Fatal, fmt.Errorf("the outer one is refused with %w", refused))
			}
			return err
		}, nil
	})
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	want(t, k.words("k", "inner"), graph.Accept)
	want(t, k.words("l", "outer"), graph.Accept)
	if got := k.entries(countStore); got != "k outer=1" {
		t.Errorf("the store has %s", got)
	}
}

// TestTryOutsideOfATurn: there is no unit of which it could be a part.
func TestTryOutsideOfATurn(t *testing.T) {
	var kept *topology.Context
	b := topology.NewBuilder("kept")
	topology.Stateful(topology.From(b, wordsTopic), "node").Process(
		func(*topology.Setup) (topology.Handler[string, string], error) {
			return func(c *topology.Context, _ word) error { kept = c; return nil }, nil
		})
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	want(t, k.words("k", "v"), graph.Accept)
	if refused, err := kept.Try(func() error { return nil }); refused != nil || topology.ClassOf(err) != topology.Fatal {
		t.Errorf("Try returned %v and %v", refused, err)
	}
}
