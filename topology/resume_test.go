package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// hoarding is a topology that defers every record except one with the value "all". That record
// resumes all deferred ones, each in a Try; so does the clock. A resumed record is noted in seen
// with its known data, and is emitted.
func hoarding(tb testing.TB, seen *[]string) *topology.Topology {
	tb.Helper()
	type hoard struct {
		record   word
		deferred topology.Deferred
	}
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	node := topology.Stateful(topology.From(b, wordsTopic), "keep")
	out := topology.Outlet[string, string](node, "out")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := out.In(t)
		var hoards []hoard // a test is one attempt long
		release := func(c *topology.Context) error {
			for _, h := range hoards {
				_, err := c.Try(func() error {
					return topology.Resume(c, h.record, h.deferred, func(r word) error { return emit(c, r) })
				})
				if err != nil {
					return err
				}
			}
			return nil
		}
		t.OnWallClock(time.Second, func(c *topology.Context, _ time.Time) error { return release(c) })
		return func(c *topology.Context, r word) error {
			if r.Value != "all" {
				deferred := topology.DeferredOf(c, r)
				hoards = append(hoards, hoard{word{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers}, deferred})
				return nil
			}
			if err := release(c); err != nil {
				return err
			}
			return emit(c, r)
		}, nil
	})
	see := topology.Stateful(out.Stream(), "see")
	passed := topology.Outlet[string, string](see, "passed")
	see.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := passed.In(t)
		return func(c *topology.Context, r word) error {
			topic, partition, offset := r.Source()
			appended, known := c.AppendTime()
			of, _, turn := c.Source()
			*seen = append(*seen, fmt.Sprintf("%s %s %s[%d]@%d %d %d %t %t in %s@%d", r.Value, c.Mode(), topic, partition, offset,
				r.StreamTime(), appended, known, c.Resumed(), of, turn))
			switch r.Value {
			case "fail":
				return topology.Fail(topology.Validation, schemas.Reason("asked to"))
			case "panic":
				panic("asked to")
			}
			return emit(c, r)
		}, nil
	})
	passed.Stream().Into(outTopic)
	return mustBuild(tb, b)
}

// TestResume is requirement I1: a deferred record is handled with its own position and in its own
// mode, and the record at work in its own again, also behind a failure and a panic.
func TestResume(t *testing.T) {
	var seen []string
	for app, modes := range map[topology.Mode][3]string{
		topology.Live: {"LIVE", "REPAIR", "BACKFILL"}, topology.Replay: {"REPLAY", "REPLAY", "REPLAY"},
	} {
		seen = nil
		cfg := baseConfig()
		cfg.Mode = app
		k := openTask(t, hoarding(t, &seen), graph.TaskID{Subtopology: "words"}, cfg)
		send := func(value, mode string) []graph.Output {
			in := k.input("words", []byte("k"), []byte(value))
			in.TimestampType, in.StreamTime = graph.LogAppendTime, now.UnixMilli()+in.Offset
			if mode != "" {
				in.Headers = []topology.Header{{Key: topology.HeaderMode, Value: []byte(mode)}}
			}
			return want(t, k.graph.Process(in), graph.Accept).Outputs
		}
		send("live", "")
		send("fail", "REPAIR")
		send("panic", "REPAIR")
		send("repair", "REPAIR")
		var written []string
		for _, out := range send("all", "BACKFILL") {
			written = append(written, string(out.Value)+modeOf(out.Headers))
		}
		at := now.UnixMilli()
		wanted := []string{
			fmt.Sprintf("live %s words[0]@0 %d 0 false true in words@4", modes[0], at+4),
			fmt.Sprintf("fail %s words[0]@1 %d 0 false true in words@4", modes[1], at+4),
			fmt.Sprintf("panic %s words[0]@2 %d 0 false true in words@4", modes[1], at+4),
			fmt.Sprintf("repair %s words[0]@3 %d 0 false true in words@4", modes[1], at+4),
			fmt.Sprintf("all %s words[0]@4 %d %d true false in words@4", modes[2], at+4, at),
		}
		if got, want := strings.Join(seen, "\n"), strings.Join(wanted, "\n"); got != want {
			t.Errorf("%s: seen\n%s\nwant\n%s", app, got, want)
		}
		goes := "[live repair[REPAIR] all[BACKFILL]]"
		if app == topology.Replay {
			goes = "[live[REPLAY] repair[REPLAY] all[REPLAY]]"
		}
		if got := fmt.Sprint(written); got != goes {
			t.Errorf("%s: %s is written, want %s", app, got, goes)
		}
	}
}

// TestResumeInPunctuation: a record that a wall-clock punctuation resumes is in its own mode too.
func TestResumeInPunctuation(t *testing.T) {
	var seen []string
	k := openTask(t, hoarding(t, &seen), graph.TaskID{Subtopology: "words"}, baseConfig())
	in := k.input("words", []byte("k"), []byte("v"))
	in.Headers = []topology.Header{{Key: topology.HeaderMode, Value: []byte("REPAIR")}}
	want(t, k.graph.Process(in), graph.Accept)
	p, ok := k.graph.Due(now.Add(time.Second))
	if !ok {
		t.Fatal("nothing is due")
	}
	v := want(t, k.graph.Punctuate(p), graph.Accept)
	if got, want := strings.Join(seen, "; "), fmt.Sprintf("v REPAIR words[0]@0 %d 0 false true in @0", state.NoTime); got != want {
		t.Errorf("seen %q, want %q", got, want)
	}
	if len(v.Outputs) != 1 || modeOf(v.Outputs[0].Headers) != "[REPAIR]" {
		t.Errorf("%v is written", v.Outputs)
	}
}

// TestResumeScope: a record that a node builds from nothing inherits from the deferred record
// during Resume, and from the record or punctuation at work afterwards, also if the deferred record
// has failed (requirement I1).
func TestResumeScope(t *testing.T) {
	var seen []string
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	node := topology.Stateful(topology.From(b, wordsTopic), "keep")
	out := topology.Outlet[string, string](node, "out")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := out.In(t)
		var record word
		var deferred topology.Deferred
		release := func(c *topology.Context) error {
			for _, value := range []string{"fails", "made"} {
				_, err := c.Try(func() error {
					return topology.Resume(c, record, deferred, func(word) error {
						if value == "fails" {
							return topology.Fail(topology.Validation, schemas.Reason("asked to"))
						}
						return emit(c, word{Value: value})
					})
				})
				if err != nil {
					return err
				}
			}
			return emit(c, word{Value: "behind"})
		}
		t.OnWallClock(time.Second, func(c *topology.Context, _ time.Time) error { return release(c) })
		return func(c *topology.Context, r word) error {
			if r.Value != "keep" {
				return release(c)
			}
			deferred = topology.DeferredOf(c, r)
			record = word{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers}
			return nil
		}, nil
	})
	out.Stream().Peek("see", func(r word) error {
		topic, partition, offset := r.Source()
		header, _ := r.Header("of")
		seen = append(seen, fmt.Sprintf("%s %s[%d]@%d %d %s", r.Value, topic, partition, offset, r.Timestamp-now.UnixMilli(), header))
		return nil
	}).Into(outTopic)
	k := openTask(t, mustBuild(t, b), graph.TaskID{Subtopology: "words"}, baseConfig())
	for n, value := range []string{"keep", "release"} {
		in := k.input("words", []byte("k"), []byte(value))
		in.Timestamp += int64(n) + 1
		in.StreamTime = in.Timestamp
		in.Headers = []topology.Header{{Key: "of", Value: []byte(value)}}
		want(t, k.graph.Process(in), graph.Accept)
	}
	p, ok := k.graph.Due(now.Add(time.Second))
	if !ok {
		t.Fatal("nothing is due")
	}
	want(t, k.graph.Punctuate(p), graph.Accept)
	wanted := []string{
		"made words[0]@0 1 keep", "behind words[0]@1 2 release", "made words[0]@0 1 keep", "behind [0]@0 1000 ",
	}
	if got, want := strings.Join(seen, "; "), strings.Join(wanted, "; "); got != want {
		t.Errorf("seen\n%s\nwant\n%s", got, want)
	}
}
