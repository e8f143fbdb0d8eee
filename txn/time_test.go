package txn_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// ticking counts its firings in a store and emits every count. every decides the schedule; with
// stream set it goes by stream time.
func ticking(t *testing.T, every time.Duration, stream bool) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	fired := topology.KeyValueStore("fired", schemas.String(), schemas.Int64())
	n := topology.Stateful(in, "tick", fired)
	out := topology.Outlet[string, int64](n, "out")
	n.Process(func(s *topology.Setup) (topology.Handler[string, string], error) {
		store, emit := fired.In(s), out.In(s)
		tick := func(c *topology.Context, at time.Time) error {
			key := s.Task().String()
			n, _, err := store.Get(key)
			if err != nil {
				return err
			}
			if err := store.Put(key, n+1); err != nil {
				return err
			}
			return emit(c, topology.Record[string, int64]{Key: key, Value: n + 1})
		}
		if stream {
			s.OnStreamTime(every, tick)
		} else {
			s.OnWallClock(every, tick)
		}
		return func(*topology.Context, topology.Record[string, string]) error { return nil }, nil
	})
	out.Stream().Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// consecutive checks that every key counts 1, 2, 3, ... and returns how far each one came.
func consecutive(t *testing.T, records []*kgo.Record) map[string]int64 {
	t.Helper()
	seen := map[string]int64{}
	for _, r := range records {
		n, err := schemas.Int64().Decode(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if n != seen[string(r.Key)]+1 {
			t.Fatalf("key %s: %d follows %d", r.Key, n, seen[string(r.Key)])
		}
		seen[string(r.Key)] = n
	}
	return seen
}

// TestWallClockWithoutRecords: a task without a single record fires. Its rounds carry an offset
// commit under its membership, because otherwise nothing would fence them. An abort loses and
// repeats no firing, and a restart continues to count (rules 2.3, 9.4).
func TestWallClockWithoutRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		var commits, refused atomic.Int64
		b.ControlKey(keyTxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			commit := req.(*kmsg.TxnOffsetCommitRequest)
			if commit.MemberID == "" || commit.Generation < 0 || len(commit.Topics) == 0 {
				t.Errorf("an offset commit that fences nothing: member %q, generation %d", commit.MemberID, commit.Generation)
			}
			if commits.Add(1)%4 == 2 {
				refused.Add(1)
				return refuse(req, kerr.UnknownServerError.Code), nil, true
			}
			return nil, nil, false
		})
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		total := int64(0)
		for life := range 2 {
			app, stop := start(t, ticking(t, 20*time.Millisecond, false), cfg)
			waitFor(t, "both tasks to fire", func() bool { return app.Status().Totals.Punctuations >= 20 })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			fired := app.Status().Totals
			if fired.Commits > commits.Load()-refused.Load() {
				t.Errorf("%d rounds were committed with %d accepted offset commits", fired.Commits, commits.Load()-refused.Load())
			}
			total += fired.Punctuations
			var sum int64
			for _, n := range consecutive(t, b.read(t, "out", int(total))) {
				sum += n
			}
			if sum != total {
				t.Errorf("life %d: the outputs add up to %d firings and %d were committed", life, sum, total)
			}
		}
		if refused.Load() == 0 {
			t.Error("nothing was refused: the test tested nothing")
		}
	})
}

// emitting emits at every firing by the wall clock, and keeps nothing.
func emitting(t *testing.T, every time.Duration) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	n := topology.Stateful(in, "beat")
	out := topology.Outlet[string, string](n, "out")
	n.Process(func(s *topology.Setup) (topology.Handler[string, string], error) {
		emit := out.In(s)
		s.OnWallClock(every, func(c *topology.Context, at time.Time) error {
			return emit(c, topology.Record[string, string]{Key: s.Task().String(), Value: at.Format(time.RFC3339Nano)})
		})
		return func(*topology.Context, topology.Record[string, string]) error { return nil }, nil
	})
	out.Stream().Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestWallClockThatOnlyEmits: a firing that emits and writes no store is committed as any other
// (rule 2.3).
func TestWallClockThatOnlyEmits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		app, stop := start(t, emitting(t, 20*time.Millisecond), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "outputs of punctuations", func() bool { return app.Status().Totals.Outputs >= 5 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		totals := app.Status().Totals
		if totals.Punctuations != totals.Outputs {
			t.Errorf("%d punctuations were committed with %d outputs", totals.Punctuations, totals.Outputs)
		}
		before := time.Time{}
		for _, r := range b.read(t, "out", int(totals.Outputs)) {
			at, err := time.Parse(time.RFC3339Nano, string(r.Value))
			if err != nil {
				t.Fatal(err)
			}
			if !at.After(before) {
				t.Errorf("firing at %s follows one at %s", at, before)
			}
			before = at
		}
	})
}

// TestStreamTimeAcrossAborts: a boundary of stream time that is passed fires once, whatever is
// aborted and restarted in between.
func TestStreamTimeAcrossAborts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		var commits, refused atomic.Int64
		b.ControlKey(keyTxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if commits.Add(1)%3 == 2 {
				refused.Add(1)
				return refuse(req, kerr.UnknownServerError.Code), nil, true
			}
			return nil, nil, false
		})
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, CommitIntervalMax: 5 * time.Millisecond})
		const lives = 3
		perStart := 240
		if virtual.RaceDetector {
			perStart = 120 // two boundaries in each incarnation, and not four
		}
		begin := time.Now().Truncate(time.Minute).Add(-24 * time.Hour)
		for life := range lives {
			app, stop := start(t, ticking(t, time.Minute, true), cfg)
			for i := range perStart {
				at := begin.Add(time.Duration(life*perStart+i) * time.Second)
				b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v"), Timestamp: at})
			}
			waitFor(t, "the records", func() bool { return app.Status().Totals.Records == int64(perStart) })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			fired := ((life+1)*perStart - 1) / 60 // boundaries passed; the first record only sets the time
			if got := consecutive(t, b.read(t, "out", fired)); got["in_0"] != int64(fired) {
				t.Errorf("life %d: %v, want %d firings", life, got, fired)
			}
		}
		if refused.Load() == 0 {
			t.Error("nothing was refused: the test tested nothing")
		}
	})
}

// TestOrderOfInputs: the records of two inputs are processed in the order of their timestamps
// although one of them comes from a broker that answers late. Without the wait, when that broker
// answers after all records of the other input, they are not.
func TestOrderOfInputs(t *testing.T) {
	for _, tc := range []struct {
		name    string
		wait    time.Duration
		ordered bool
	}{
		{"with the wait", patience, true},
		{"control: without it", -1, false},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			b := newBrokers(t, 2, kfake.SeedTopics(1, "a", "b", "out"))
			for topic, node := range map[string]int32{"a": 0, "b": 1} {
				if err := b.MoveTopicPartition(topic, 0, node); err != nil {
					t.Fatal(err)
				}
			}
			const n = 200
			for i := range n {
				b.produce(t, &kgo.Record{
					Topic: []string{"a", "b"}[i%2], Key: []byte("k"), Value: fmt.Appendf(nil, "%d", i), Timestamp: time.UnixMilli(int64(1000 + i)),
				})
			}
			var order []string
			var mu sync.Mutex
			late := func() { time.Sleep(200 * time.Millisecond) }
			if !tc.ordered {
				others := func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(order) >= n/2
				}
				late = func() {
					for deadline := time.Now().Add(patience); !others() && time.Now().Before(deadline); {
						time.Sleep(time.Millisecond) // the condition is looked at again and again
					}
				}
			}
			b.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				if b.CurrentNode() == 1 {
					b.SleepControl(late)
				}
				return nil, nil, false
			})
			builder := topology.NewBuilder("counting")
			x := topology.From(builder, topology.Topic("a", schemas.String(), schemas.String()))
			y := topology.From(builder, topology.Topic("b", schemas.String(), schemas.String()))
			x.Merge("both", y).Peek("see", func(r topology.Record[string, string]) error {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, r.Value)
				return nil
			}).Into(topology.Topic("out", schemas.String(), schemas.String()))
			top, err := builder.Build()
			if err != nil {
				t.Fatal(err)
			}
			app, _ := start(t, top, b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, OrderWaitMax: tc.wait}))
			waitFor(t, "all records", func() bool { return app.Status().Totals.Records == n })
			ordered := true
			mu.Lock()
			defer mu.Unlock()
			for i, value := range order {
				ordered = ordered && value == fmt.Sprint(i)
			}
			if ordered != tc.ordered {
				t.Errorf("ordered is %v", ordered)
			}
		})
	}
}
