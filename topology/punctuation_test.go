package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// puncture is what the tests of this file declare: schedules of a node that counts records in
// countStore and passes them on.
type puncture func(t *topology.Setup, emit topology.Emit[string, string], counts state.KeyValue[string, int64])

// punctuated opens a task with the node "node". The handler fails on the value "fail".
func punctuated(tb testing.TB, declare puncture, opts ...topology.BuilderOption) *task {
	tb.Helper()
	return openTask(tb, mustBuild(tb, punctuatedBuilder(declare, opts...)), fanTask, baseConfig())
}

func punctuatedBuilder(declare puncture, opts ...topology.BuilderOption) *topology.Builder {
	b := topology.NewBuilder("punctuated", opts...)
	n := topology.Stateful(topology.From(b, wordsTopic), "node", countStore)
	out := topology.Outlet[string, string](n, "out")
	n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit, counts := out.In(t), countStore.In(t)
		declare(t, emit, counts)
		return func(c *topology.Context, r word) error {
			if r.Value == "fail" {
				return topology.Fail(topology.Validation, schemas.Reason("told to fail"))
			}
			n, _, err := counts.Get("records")
			if err != nil {
				return err
			}
			return errors.Join(counts.Put("records", n+1), emit(c, r))
		}, nil
	})
	out.Stream().Into(outTopic)
	return b
}

// mark returns a punctuator that counts its firings in the store, and emits at and their number.
func mark(
	name string, emit topology.Emit[string, string], counts state.KeyValue[string, int64],
) topology.Punctuator {
	return func(c *topology.Context, at time.Time) error {
		n, _, err := counts.Get(name)
		if err != nil {
			return err
		}
		if err := counts.Put(name, n+1); err != nil {
			return err
		}
		return emit(c, word{Key: name, Value: fmt.Sprintf("%d@%d", n+1, at.UnixMilli())})
	}
}

// onStreamTime is mark on stream time.
func onStreamTime(every time.Duration) puncture {
	return func(t *topology.Setup, emit topology.Emit[string, string], counts state.KeyValue[string, int64]) {
		t.OnStreamTime(every, mark("mark", emit, counts))
	}
}

// at returns a record with that timestamp, for a task whose stream time was before.
func (k *task) at(before, timestamp int64, value string) graph.Input {
	in := k.input("words", []byte("k"), []byte(value))
	in.Timestamp, in.StreamTimeBefore, in.StreamTime = timestamp, before, max(before, timestamp)
	return in
}

// marks lists what marks have emitted.
func marks(outputs []graph.Output) string {
	var s []string
	for _, out := range outputs {
		if string(out.Key) != "k" {
			s = append(s, string(out.Key)+" "+string(out.Value))
		}
	}
	return strings.Join(s, "; ")
}

func TestOnStreamTime(t *testing.T) {
	for _, test := range []struct {
		name            string
		before, now     int64
		want, wantState string
	}{
		{"first record", state.NoTime, 5000, "", "records=1"},
		{"no boundary", 1001, 1999, "", "records=1"},
		{"time stands still", 2000, 2000, "", "records=1"},
		{"late record", 5000, 1, "", "records=1"},
		{"onto a boundary", 1999, 2000, "mark 1@2000", "mark=1 records=1"},
		{"from a boundary", 2000, 2999, "", "records=1"},
		{"over a boundary", 1999, 2001, "mark 1@2000", "mark=1 records=1"},
		{"over many fires once", 1999, 9999, "mark 1@9000", "mark=1 records=1"},
		{"from the epoch", 0, 1000, "mark 1@1000", "mark=1 records=1"},
		{"before the epoch to the epoch", -1, 0, "mark 1@0", "mark=1 records=1"},
		{"before the epoch to after it", -1500, 999, "mark 1@0", "mark=1 records=1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := punctuated(t, onStreamTime(time.Second))
			v := want(t, k.graph.Process(k.at(test.before, test.now, "v")), graph.Accept)
			if got := marks(v.Outputs); got != test.want {
				t.Errorf("marks: %q, want %q", got, test.want)
			}
			if got := k.entries(countStore); got != test.wantState {
				t.Errorf("store: %s, want %s", got, test.wantState)
			}
		})
	}
}

// TestStreamTimeBeforeTheEpoch: a record cannot bring it there, so the time alone is given.
func TestStreamTimeBeforeTheEpoch(t *testing.T) {
	k := punctuated(t, func(s *topology.Setup, _ topology.Emit[string, string], counts state.KeyValue[string, int64]) {
		s.OnStreamTime(time.Second, func(_ *topology.Context, at time.Time) error {
			return counts.Put(fmt.Sprint(at.UnixMilli()), 1)
		})
	})
	in := k.at(-1001, 0, "v")
	in.StreamTime = -1
	want(t, k.graph.Process(in), graph.Accept)
	if got := k.entries(countStore); got != "-1000=1 records=1" {
		t.Errorf("store: %s", got)
	}
	in = k.at(-999, 0, "v")
	in.StreamTime = -1
	want(t, k.graph.Process(in), graph.Accept)
	if got := k.entries(countStore); got != "-1000=1 records=2" {
		t.Errorf("without a boundary: %s", got)
	}
	want(t, k.graph.Process(k.at(-1001, -1, "v")), topology.Stop) // the topology has no dead letters
}

// TestUnit: record and punctuation see each other's writes, and share outputs, counts and
// savepoint.
func TestUnit(t *testing.T) {
	var times []int64
	k := punctuated(t, func(s *topology.Setup, emit topology.Emit[string, string], counts state.KeyValue[string, int64]) {
		fired := s.Counter("fired")
		s.OnStreamTime(time.Second, func(c *topology.Context, at time.Time) error {
			fired.Inc()
			times = append(times, c.StreamTime(), int64(c.Attempt()))
			var all []string
			for p, err := range counts.All() {
				if err != nil {
					return err
				}
				all = append(all, p.Key)
			}
			return errors.Join(emit(c, word{Key: "all", Value: fmt.Sprint(all)}),
				emit(c, word{Key: "dated", Timestamp: 7}))
		})
	})
	in := k.at(1, 2500, "v")
	in.Headers = []topology.Header{{Key: "h", Value: []byte("v")}}
	in.Attempt = 3
	v := want(t, k.graph.Process(in), graph.Accept)
	if got := marks(v.Outputs); got != "all [records]; dated " {
		t.Errorf("marks: %q", got)
	}
	var dates, headers []int64
	for _, out := range v.Outputs {
		dates, headers = append(dates, out.Timestamp), append(headers, int64(len(out.Headers)))
	}
	if !slices.Equal(dates, []int64{2500, 2000, 7}) || !slices.Equal(headers, []int64{1, 0, 0}) {
		t.Errorf("timestamps %v, headers %v", dates, headers)
	}
	if got := countsOf(v); got != "node.fired=1" || !v.Wrote {
		t.Errorf("counts: %s; wrote %v", got, v.Wrote)
	}
	if !slices.Equal(times, []int64{2500, 3}) {
		t.Errorf("stream time and attempt: %v", times)
	}
}

// TestPunctuationHasNoSource: nor has what is made of its records.
func TestPunctuationHasNoSource(t *testing.T) {
	b := topology.NewBuilder("source")
	n := topology.Stateful(topology.From(b, wordsTopic), "node")
	out := topology.Outlet[string, string](n, "out")
	n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := out.In(t)
		t.OnStreamTime(time.Second, func(c *topology.Context, at time.Time) error {
			return emit(c, word{Key: "mark"})
		})
		return forward(emit), nil
	})
	var seen []string
	topology.MapValuesWithRecord(out.Stream(), "look", func(r word) (string, error) {
		topic, partition, offset := r.Source()
		seen = append(seen, fmt.Sprintf("%s %q %d %d %d", r.Key, topic, partition, offset, r.StreamTime()))
		return "", nil
	}).Into(outTopic)
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	k.offset = 9
	want(t, k.graph.Process(k.at(1, 2500, "v")), graph.Accept)
	want(t, k.graph.Process(k.at(2500, 2600, "v")), graph.Accept)
	if got := strings.Join(seen, "; "); got != `k "words" 0 9 2500; mark "" 0 0 2500; k "words" 0 10 2600` {
		t.Errorf("seen: %s", got)
	}
}

func forward(emit topology.Emit[string, string]) topology.Handler[string, string] {
	return func(c *topology.Context, r word) error { return emit(c, r) }
}

// TestFailedRecordFiresNothing: it does not move the stream time either, so the next record fires.
func TestFailedRecordFiresNothing(t *testing.T) {
	k := punctuated(t, onStreamTime(time.Second), topology.DeadLetters("dead"))
	v := want(t, k.graph.Process(k.at(1, 2500, "fail")), topology.DeadLetter)
	if len(v.Outputs) != 1 || v.Outputs[0].Topic != "dead" || v.Wrote || k.entries(countStore) != "" {
		t.Errorf("outputs %s, store %s, wrote %v", lines(v.Outputs), k.entries(countStore), v.Wrote)
	}
	v = want(t, k.graph.Process(k.at(1, 2400, "v")), graph.Accept)
	if got := marks(v.Outputs); got != "mark 1@2000" {
		t.Errorf("marks: %q", got)
	}
}

func TestFiringOrder(t *testing.T) {
	b := topology.NewBuilder("order")
	var fired []string
	source := topology.From(b, wordsTopic)
	declare := func(name string, from words) words {
		n := topology.Stateful(from, name)
		out := topology.Outlet[string, string](n, "out")
		n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
			emit := out.In(t)
			for i, every := range []time.Duration{2 * time.Second, time.Second} {
				f := func(_ *topology.Context, at time.Time) error {
					fired = append(fired, fmt.Sprintf("%s%d@%d", name, i, at.UnixMilli()))
					return nil
				}
				t.OnStreamTime(every, f)
				t.OnWallClock(every, f)
			}
			return forward(emit), nil
		})
		return out.Stream()
	}
	declare("a", declare("c", source))
	declare("b", source)
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	want(t, k.graph.Process(k.at(0, 3000, "v")), graph.Accept)
	if got := strings.Join(fired, " "); got != "a0@2000 a1@3000 b0@2000 b1@3000 c0@2000 c1@3000" {
		t.Errorf("fired: %s", got)
	}
	// By the wall clock what is due earlier comes first.
	fired = nil
	at := now.Add(2 * time.Second)
	for p, ok := k.graph.Due(at); ok; p, ok = k.graph.Due(at) {
		want(t, k.graph.Punctuate(p), graph.Accept)
	}
	suffix := fmt.Sprintf("@%d", at.UnixMilli())
	if got := strings.ReplaceAll(strings.Join(fired, " "), suffix, ""); got != "a1 b1 c1 a0 b0 c0" {
		t.Errorf("fired: %s", got)
	}
}
