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

// hoarding is a topology that keeps every record but one with the value "all", which takes up all
// that were kept, each in a Try, as the clock does. What is taken up is told with what is known of
// it, and goes out.
func hoarding(tb testing.TB, seen *[]string) *topology.Topology {
	tb.Helper()
	type hoard struct {
		record word
		kept   topology.Kept
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
					return topology.TakeUp(c, h.record, h.kept, func(r word) error { return emit(c, r) })
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
				kept := topology.Keep(c, r)
				hoards = append(hoards, hoard{word{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers}, kept})
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
				r.StreamTime(), appended, known, c.TakenUp(), of, turn))
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

// TestTakeUp is requirement I1: what was kept back is handled with its own position and in its own
// mode, and the record at work in its own again, also behind a failure and a panic.
func TestTakeUp(t *testing.T) {
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

// TestTakeUpInPunctuation: what a clock takes up is in its own mode too.
func TestTakeUpInPunctuation(t *testing.T) {
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

// TestTakeUpScope (I1): what a node builds from nothing takes after the record that it has taken
// up, and behind that after the record at work, or the punctuation, again, also where the record
// that was taken up has failed.
func TestTakeUpScope(t *testing.T) {
	var seen []string
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	node := topology.Stateful(topology.From(b, wordsTopic), "keep")
	out := topology.Outlet[string, string](node, "out")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := out.In(t)
		var record word
		var kept topology.Kept
		release := func(c *topology.Context) error {
			for _, value := range []string{"fails", "made"} {
				_, err := c.Try(func() error {
					return topology.TakeUp(c, record, kept, func(word) error {
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
			kept = topology.Keep(c, r)
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
