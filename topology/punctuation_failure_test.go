package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// broken declares, behind a schedule that succeeds, one that writes, emits, counts and then does
// what end says.
func broken(wallClock bool, end func(c *topology.Context) error) puncture {
	return func(t *topology.Setup, emit topology.Emit[string, string], counts state.KeyValue[string, int64]) {
		declare, counter := t.OnStreamTime, t.Counter("fired")
		if wallClock {
			declare = t.OnWallClock
		}
		declare(time.Second, mark("good", emit, counts))
		declare(time.Second, func(c *topology.Context, at time.Time) error {
			counter.Inc()
			if err := mark("bad", emit, counts)(c, at); err != nil {
				return err
			}
			return end(c)
		})
	}
}

// failures are the ways in which a punctuation ends badly, and what the failure says.
var failures = []struct {
	name   string
	end    func(c *topology.Context) error
	action topology.Action
	want   string
}{
	{"error", func(*topology.Context) error { return errors.New("secret of the record") }, topology.Stop,
		"node node: poison: error of type *errors.errorString, in a punctuation on TIME every 1s; " +
			"the task stops because no record is to blame for the failure of a punctuation"},
	{"panic", func(*topology.Context) error { panic("secret of the record") }, topology.Stop,
		"node node: poison: panic with a value of type string, in a punctuation on TIME every 1s; the task stops"},
	{"validation", func(*topology.Context) error {
		return topology.Fail(topology.Validation, schemas.Reason("out of range"))
	}, topology.Stop, "node node: validation: out of range, in a punctuation on TIME"},
	{"fatal", func(*topology.Context) error {
		return topology.Fail(topology.Fatal, schemas.Reason("over"))
	}, topology.Stop, "node node: fatal: over, in a punctuation on TIME every 1s"},
	{"transient", func(c *topology.Context) error {
		return topology.Fail(topology.Transient, schemas.Reason("not now"))
	}, topology.Retry, "node node: transient: not now, in a punctuation on TIME every 1s"},
}

// TestFailedPunctuation: nothing of the unit is left, no record becomes a dead letter, and the unit
// succeeds later as if nothing had been.
func TestFailedPunctuation(t *testing.T) {
	for _, wallClock := range []bool{false, true} {
		for _, test := range failures {
			t.Run(fmt.Sprintf("%s wall clock %v", test.name, wallClock), func(t *testing.T) {
				heal := false
				k := punctuated(t, broken(wallClock, func(c *topology.Context) error {
					if heal {
						return nil
					}
					return test.end(c)
				}), topology.DeadLetters("dead"))
				unit, text, left, healed := k.streamTimeUnit(), "stream time", "", "bad=1 good=1 records=1"
				if wallClock {
					good, _ := k.graph.Due(now.Add(time.Second))
					want(t, k.graph.Punctuate(good), graph.Accept)
					unit, text, left, healed = k.wallClockUnit(), "the wall clock", "good=1", "bad=1 good=1"
				}
				v := want(t, unit(1), test.action)
				wanted := strings.ReplaceAll(test.want, "TIME", text)
				if got := v.Failure.Error(); !strings.HasPrefix(got, wanted) || strings.Contains(got, "secret") {
					t.Errorf("failure: %s\nwant: %s", got, wanted)
				}
				if (test.name == "panic") != strings.Contains(v.Failure.Stack, "TestFailedPunctuation") {
					t.Errorf("stack: %s", v.Failure.Stack)
				}
				if len(v.Outputs)+len(v.Counts) != 0 || v.Wrote || k.entries(countStore) != left {
					t.Errorf("left: outputs %s, counts %s, store %s", lines(v.Outputs), countsOf(v), k.entries(countStore))
				}
				// A record that fails on its own is not taken for a punctuation afterwards.
				want(t, k.graph.Process(k.at(1, 1, "fail")), topology.DeadLetter)
				heal = true
				v = want(t, unit(2), graph.Accept)
				if got := k.entries(countStore); got != healed || countsOf(v) != "node.fired=1" {
					t.Errorf("at last: store %s, counts %s", got, countsOf(v))
				}
			})
		}
	}
}

// streamTimeUnit returns a record that fires, as a function of the attempt.
func (k *task) streamTimeUnit() func(attempt int) graph.Verdict {
	in := k.at(1, 2500, "v")
	return func(attempt int) graph.Verdict {
		in.Attempt = attempt
		return k.graph.Process(in)
	}
}

// wallClockUnit returns the punctuation that is due next.
func (k *task) wallClockUnit() func(attempt int) graph.Verdict {
	p, ok := k.graph.Due(now.Add(time.Second))
	if !ok {
		k.tb.Fatal("nothing is due")
	}
	return func(attempt int) graph.Verdict {
		p.Attempt = attempt
		return k.graph.Punctuate(p)
	}
}

// TestRetriesEnd: after the last attempt the task stops, whatever the policy wants then.
func TestRetriesEnd(t *testing.T) {
	for _, wallClock := range []bool{false, true} {
		k := punctuated(t, broken(wallClock, func(*topology.Context) error {
			return topology.Fail(topology.Transient, schemas.Reason("not now"))
		}), topology.DeadLetters("dead"), topology.OnError(topology.Transient, topology.Policy{
			Action: topology.Retry, Attempts: 3, Then: topology.DeadLetter,
			Backoff: time.Second, BackoffMax: time.Minute,
		}))
		unit := k.streamTimeUnit()
		if wallClock {
			k.wallClockUnit() // the good one
			unit = k.wallClockUnit()
		}
		for attempt, backoff := range []time.Duration{time.Second, 2 * time.Second} {
			if v := want(t, unit(attempt+1), topology.Retry); v.Backoff != backoff {
				t.Errorf("wall clock %v: attempt %d: %s", wallClock, attempt+1, v.Backoff)
			}
		}
		v := want(t, unit(3), topology.Stop)
		if v.Failure.Attempt != 3 || !strings.HasSuffix(v.Failure.Error(), "failure of a punctuation") {
			t.Errorf("wall clock %v: %v", wallClock, v.Failure)
		}
		if got := k.entries(countStore); got != "" {
			t.Errorf("wall clock %v: store %s", wallClock, got)
		}
	}
}

// TestFirstFailureEndsFiring: what would be undone is not begun.
func TestFirstFailureEndsFiring(t *testing.T) {
	k := punctuated(t, func(s *topology.Setup, _ topology.Emit[string, string], _ state.KeyValue[string, int64]) {
		s.OnStreamTime(time.Second, func(*topology.Context, time.Time) error { return errDisk })
		s.OnStreamTime(time.Second, func(*topology.Context, time.Time) error {
			t.Error("a punctuation runs after one that has failed")
			return nil
		})
	})
	want(t, k.graph.Process(k.at(1, 2500, "v")), topology.Stop)
}

// TestPunctuationFailsDownstream: the policy is that of the node that fails, not of the one that
// punctuates; and who swallows the error, or recovers the panic, does not help.
func TestPunctuationFailsDownstream(t *testing.T) {
	for name, swallow := range map[string]func(c *topology.Context, emit topology.Emit[string, string], r word) error{
		"returned": func(c *topology.Context, emit topology.Emit[string, string], r word) error { return emit(c, r) },
		"swallowed": func(c *topology.Context, emit topology.Emit[string, string], r word) error {
			_ = emit(c, r)
			return nil
		},
		"recovered": func(c *topology.Context, emit topology.Emit[string, string], r word) (err error) {
			defer func() { _ = recover() }()
			r.Value = "panic"
			return emit(c, r)
		},
	} {
		b := topology.NewBuilder("downstream", topology.DeadLetters("dead"))
		n := topology.Stateful(topology.From(b, wordsTopic), "up")
		out := topology.Outlet[string, string](n, "out")
		n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
			emit := out.In(t)
			t.OnStreamTime(time.Second, func(c *topology.Context, _ time.Time) error {
				return swallow(c, emit, word{Key: "mark"})
			})
			return forward(emit), nil
		})
		retry := topology.Policy{
			Action: topology.Retry, Attempts: 2, Then: topology.Stop, Backoff: 1, BackoffMax: 1,
		}
		out.Stream().Filter("down", func(r word) (bool, error) {
			switch {
			case r.Key != "mark":
				return true, nil
			case r.Value == "panic":
				panic(r)
			}
			return false, topology.Fail(topology.Poison, schemas.Reason("no marks here"))
		}, topology.OnError(topology.Poison, retry)).Into(outTopic)
		k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
		v := want(t, k.graph.Process(k.at(1, 2500, "v")), topology.Retry)
		if v.Failure.Node != "down" || len(v.Outputs) != 0 {
			t.Errorf("%s: failure %v, outputs %s", name, v.Failure, lines(v.Outputs))
		}
	}
}

// TestBrokenStoreInPunctuation stops the task, and cannot be swallowed.
func TestBrokenStoreInPunctuation(t *testing.T) {
	built := mustBuild(t, punctuatedBuilder(func(
		s *topology.Setup, _ topology.Emit[string, string], counts state.KeyValue[string, int64],
	) {
		s.OnWallClock(time.Second, func(*topology.Context, time.Time) error {
			_, _, _ = counts.Get("a")
			return nil
		})
	}))
	g, err := built.NewGraph(fanTask, brokenState{errDisk}, baseConfig())
	if err != nil {
		t.Fatal(err)
	}
	p, _ := g.Due(now.Add(time.Second))
	v := want(t, g.Punctuate(p), topology.Stop)
	if !errors.Is(v.Failure, errDisk) || v.Failure.Class != topology.Fatal || v.Failure.Node != "node" {
		t.Errorf("failure: %v", v.Failure)
	}
}

// TestEmitOutOfPunctuation: an Emit works in the turn of its node only, and a Setup only in the
// factory.
func TestEmitOutOfPunctuation(t *testing.T) {
	var setup *topology.Setup
	var emit topology.Emit[string, string]
	var context *topology.Context
	k := punctuated(t, func(s *topology.Setup, e topology.Emit[string, string], _ state.KeyValue[string, int64]) {
		setup, emit = s, e
		s.OnStreamTime(time.Second, func(c *topology.Context, at time.Time) error {
			context = c
			return e(c, word{Key: "mark"})
		})
		s.OnStreamTime(time.Minute, func(*topology.Context, time.Time) error {
			s.OnStreamTime(time.Second, func(*topology.Context, time.Time) error { return nil })
			return nil
		})
	})
	want(t, k.graph.Process(k.at(1, 2500, "v")), graph.Accept)
	if err := emit(context, word{}); err == nil || topology.ClassOf(err) != topology.Fatal {
		t.Errorf("emitting after the turn returns %v", err)
	}
	setup.OnWallClock(time.Second, func(*topology.Context, time.Time) error { return nil })
	if _, ok := k.graph.NextDue(); ok {
		t.Error("a schedule is declared after the factory has returned")
	}
	v := want(t, k.graph.Process(k.at(2500, 60_000, "v")), topology.Stop)
	if !strings.Contains(v.Failure.Error(), "a schedule is declared after the factory has returned") {
		t.Errorf("failure: %v", v.Failure)
	}
	v = want(t, k.graph.Process(k.at(2500, 3500, "v")), graph.Accept)
	if got := marks(v.Outputs); got != "mark " {
		t.Errorf("marks: %q", got)
	}
}

func TestScheduleMistakes(t *testing.T) {
	f := func(*topology.Context, time.Time) error { return nil }
	for _, test := range []struct {
		want    string
		declare func(s *topology.Setup)
	}{
		{"OnStreamTime(0s): the interval must be whole milliseconds, at least one",
			func(s *topology.Setup) { s.OnStreamTime(0, f) }},
		{"OnStreamTime(-1s): the interval", func(s *topology.Setup) { s.OnStreamTime(-time.Second, f) }},
		{"OnStreamTime(1.5ms): the interval", func(s *topology.Setup) { s.OnStreamTime(1500*time.Microsecond, f) }},
		{"OnWallClock(999.999µs): the interval", func(s *topology.Setup) { s.OnWallClock(time.Millisecond-1, f) }},
		{"OnWallClock(1s): the function is nil", func(s *topology.Setup) { s.OnWallClock(time.Second, nil) }},
		{"OnStreamTime(1ms): the function is nil", func(s *topology.Setup) { s.OnStreamTime(time.Millisecond, nil) }},
	} {
		built := mustBuild(t, punctuatedBuilder(func(
			s *topology.Setup, _ topology.Emit[string, string], _ state.KeyValue[string, int64],
		) {
			test.declare(s)
		}))
		_, err := built.NewGraph(fanTask, brokenState{}, baseConfig())
		if err == nil || !strings.Contains(err.Error(), "node node: the factory given to Process: "+test.want) {
			t.Errorf("the error is %v, want one with %q", err, test.want)
		}
	}
}
