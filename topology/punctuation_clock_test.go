package topology_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// due lists what is due some time after the graph was made, as firing times in the same measure.
func (k *task) due(after time.Duration) string {
	var s []string
	for p, ok := k.graph.Due(now.Add(after)); ok; p, ok = k.graph.Due(now.Add(after)) {
		s = append(s, p.At.Sub(now).String())
		want(k.tb, k.graph.Punctuate(p), graph.Accept)
	}
	return strings.Join(s, " ")
}

func TestOnWallClock(t *testing.T) {
	k := punctuated(t, func(s *topology.Setup, emit topology.Emit[string, string], counts state.KeyValue[string, int64]) {
		s.OnWallClock(10*time.Second, mark("ten", emit, counts))
	})
	second := time.Second
	for _, step := range []struct {
		after      time.Duration
		want, next string
	}{
		{0, "", "10s"},
		{10*second - 1, "", "10s"},
		{10 * second, "10s", "20s"},
		{10 * second, "", "20s"},
		{25 * second, "25s", "30s"},     // late: the plan stays in step
		{95 * second, "1m35s", "1m40s"}, // a stall is one firing
		{-time.Hour, "", "1m40s"},
	} {
		if got := k.due(step.after); got != step.want {
			t.Errorf("due after %s: %q, want %q", step.after, got, step.want)
		}
		if next, ok := k.graph.NextDue(); !ok || next.Sub(now).String() != step.next {
			t.Errorf("after %s the next one is due at %s, want %s", step.after, next.Sub(now), step.next)
		}
	}
	if got := k.entries(countStore); got != "ten=3" {
		t.Errorf("store: %s", got)
	}
	if _, ok := openTask(t, fanOut(t), fanTask, baseConfig()).graph.NextDue(); ok {
		t.Error("a graph without schedules has one due")
	}
}

// TestClockIsSet: the plan goes by the monotonic clock, where the times have one.
func TestClockIsSet(t *testing.T) {
	made := time.Now()
	cfg := baseConfig()
	cfg.Now = func() time.Time { return made }
	k := openTask(t, mustBuild(t, punctuatedBuilder(func(
		s *topology.Setup, emit topology.Emit[string, string], counts state.KeyValue[string, int64],
	) {
		s.OnWallClock(time.Minute, mark("minute", emit, counts))
	})), fanTask, cfg)
	next, _ := k.graph.NextDue()
	if next != made.Add(time.Minute) { // with the monotonic reading, unlike Equal
		t.Errorf("next due: %v after %v", next, made)
	}
	p, ok := k.graph.Due(next)
	if !ok || p.At != time.UnixMilli(next.UnixMilli()).UTC() {
		t.Errorf("due: %v, %v", p.At, ok)
	}
}

func TestLongIntervals(t *testing.T) {
	const longest = math.MaxInt64 / time.Millisecond * time.Millisecond
	k := punctuated(t, func(s *topology.Setup, emit topology.Emit[string, string], counts state.KeyValue[string, int64]) {
		s.OnWallClock(longest, mark("wall", emit, counts))
		s.OnStreamTime(longest, mark("stream", emit, counts))
	})
	want(t, k.graph.Process(k.at(0, now.UnixMilli(), "v")), graph.Accept)
	after := now.Add(longest).Add(longest) // the difference is beyond a Duration, and counts as the longest one
	if _, ok := k.graph.Due(after); !ok {
		t.Error("nothing is due")
	}
	if next, _ := k.graph.NextDue(); next.Sub(now) != math.MaxInt64 {
		t.Errorf("next due after %s", next.Sub(now))
	}
}

// TestPunctuationIsPlayedAgain: the same punctuation over the same state does the same, whatever
// time it is.
func TestPunctuationIsPlayedAgain(t *testing.T) {
	var streamTimes []int64
	k := punctuated(t, func(s *topology.Setup, emit topology.Emit[string, string], counts state.KeyValue[string, int64]) {
		s.OnWallClock(time.Second, func(c *topology.Context, at time.Time) error {
			streamTimes = append(streamTimes, c.StreamTime())
			return mark("mark", emit, counts)(c, at)
		})
	})
	play := func(p topology.Punctuation) graph.Verdict {
		want(t, k.words("a", "x"), graph.Accept)
		v := want(t, k.graph.Punctuate(p), graph.Accept)
		v.Outputs = append([]graph.Output(nil), v.Outputs...)
		return v
	}
	p, _ := k.graph.Due(now.Add(1234567890 * time.Nanosecond).In(time.FixedZone("east", 3600)))
	if p.StreamTime != state.NoTime || p.Attempt != 1 || p.At != now.Add(1234*time.Millisecond) {
		t.Errorf("punctuation: %+v", p)
	}
	p.StreamTime = 77
	first := play(p)
	if got := marks(first.Outputs); got != fmt.Sprintf("mark 1@%d", p.At.UnixMilli()) || !first.Wrote {
		t.Errorf("marks: %q, wrote %v", got, first.Wrote)
	}
	if got := first.Outputs[0]; got.Timestamp != p.At.UnixMilli() || len(got.Headers) != 0 {
		t.Errorf("output: %+v", got)
	}
	k.state.Drop() // an abort: what is not committed is gone
	k.graph.Due(now.Add(time.Minute))
	if again := play(p); !reflect.DeepEqual(again, first) {
		t.Errorf("again: %+v\nfirst: %+v", again, first)
	}
	if fmt.Sprint(streamTimes) != "[77 77]" {
		t.Errorf("stream times: %v", streamTimes)
	}
}

// TestQuietPunctuation: one that only reads is seen to have left nothing.
func TestQuietPunctuation(t *testing.T) {
	k := punctuated(t, func(s *topology.Setup, _ topology.Emit[string, string], counts state.KeyValue[string, int64]) {
		n := s.Counter("looked")
		s.OnWallClock(time.Second, func(*topology.Context, time.Time) error {
			_, _, err := counts.Get("records")
			return err
		})
		s.OnWallClock(time.Minute, func(*topology.Context, time.Time) error { n.Add(0); return counts.Delete("x") })
	})
	want(t, k.words("a", "x"), graph.Accept)
	for i, wrote := range []bool{false, true} {
		p, _ := k.graph.Due(now.Add(time.Minute))
		if v := want(t, k.graph.Punctuate(p), graph.Accept); len(v.Outputs)+len(v.Counts) != 0 || v.Wrote != wrote {
			t.Errorf("%d: outputs %s, counts %s, wrote %v", i, lines(v.Outputs), countsOf(v), v.Wrote)
		}
	}
}

// TestForeignPunctuation: one that another graph made, or nobody, does not run.
func TestForeignPunctuation(t *testing.T) {
	declare := func(s *topology.Setup, emit topology.Emit[string, string], counts state.KeyValue[string, int64]) {
		s.OnWallClock(time.Second, mark("mark", emit, counts))
	}
	k, other := punctuated(t, declare), punctuated(t, declare)
	p, _ := other.graph.Due(now.Add(time.Second))
	for _, p := range []topology.Punctuation{{}, p} {
		v := want(t, k.graph.Punctuate(p), topology.Stop)
		if !strings.Contains(v.Failure.Error(), "not made by this graph") || other.entries(countStore) != "" {
			t.Errorf("failure: %v; store of the other task: %s", v.Failure, other.entries(countStore))
		}
	}
}
