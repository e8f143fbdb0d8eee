package topologytest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// ticking has two schedules: "minute" on stream time and "ten" seconds by the wall clock. Both emit
// how many orders there were, and their at. tick is what they do beside that.
func ticking(
	tb testing.TB, tick func(c *topology.Context, name string) error, opts ...topologytest.Option,
) *topologytest.Driver {
	tb.Helper()
	b := topology.NewBuilder("ticking", topology.DeadLetters("dead"))
	n := topology.Stateful(topology.From(b, orders), "count", totalsOf)
	out := topology.Outlet[string, int64](n, "out")
	n.Process(func(t *topology.Setup) (topology.Handler[string, int64], error) {
		store, emit, fired := totalsOf.In(t), out.In(t), t.Counter("fired")
		declare := func(name string, on func(time.Duration, topology.Punctuator), every time.Duration) {
			on(every, func(c *topology.Context, at time.Time) error {
				fired.Inc()
				n, _, err := store.Get("orders")
				if err != nil {
					return err
				}
				return errors.Join(emit(c, order{Key: name + " " + at.Format("15:04:05"), Value: n}), tick(c, name))
			})
		}
		declare("minute", t.OnStreamTime, time.Minute)
		declare("ten", t.OnWallClock, 10*time.Second)
		return func(_ *topology.Context, r order) error {
			if r.Value < 0 {
				return schemas.Reason("negative")
			}
			n, _, err := store.Get("orders")
			if err != nil {
				return err
			}
			return store.Put("orders", n+1)
		}, nil
	})
	// What is emitted goes through another subtopology, so that a punctuation sets more than its
	// own task to work.
	topology.RepartitionWith(out.Stream(), "on", schemas.String(), schemas.Int64()).Into(totals)
	built, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	d, err := topologytest.New(built, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func quiet(*topology.Context, string) error { return nil }

// noon is where the clock of these tests starts.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func advance(tb testing.TB, d *topologytest.Driver, by time.Duration) {
	tb.Helper()
	if err := d.Advance(by); err != nil {
		tb.Fatal(err)
	}
}

func wantOutput(tb testing.TB, d *topologytest.Driver, want string) {
	tb.Helper()
	if got := output(tb, d); got != want {
		tb.Errorf("output: %s\nwant: %s", got, want)
	}
}

func TestStreamTimeFiresWithRecords(t *testing.T) {
	d := ticking(t, quiet, topologytest.Clock(noon))
	at := func(s int) topologytest.PipeOption { return topologytest.At(noon.Add(time.Duration(s) * time.Second)) }
	pipe(t, d, "a", 1, at(30)) // the first record sets the time
	wantOutput(t, d, "")
	pipe(t, d, "a", 1, at(60))
	wantOutput(t, d, "minute 12:01:00=2")
	pipe(t, d, "a", -1, at(130)) // a record that fails does not move it
	wantOutput(t, d, "")
	pipe(t, d, "a", 1, at(50))
	pipe(t, d, "a", 1, at(310))
	wantOutput(t, d, "minute 12:05:00=4")
	if err := d.Restart(); err != nil {
		t.Fatal(err)
	}
	pipe(t, d, "a", 1, at(359))
	wantOutput(t, d, "")
	pipe(t, d, "a", 1, at(360))
	wantOutput(t, d, "minute 12:06:00=6")
	if n := d.Count("count", "fired"); n != 3 {
		t.Errorf("fired %d times", n)
	}
}

// TestWallClockFiresWithAdvance, at its times, and not when a record moves the clock.
func TestWallClockFiresWithAdvance(t *testing.T) {
	d := ticking(t, quiet)
	pipe(t, d, "a", 1, topologytest.At(noon))
	if !d.Now().Equal(noon) {
		t.Errorf("the clock shows %s", d.Now())
	}
	advance(t, d, 9999*time.Millisecond)
	wantOutput(t, d, "")
	advance(t, d, time.Millisecond)
	wantOutput(t, d, "ten 12:00:10=1")
	advance(t, d, 35*time.Second)
	wantOutput(t, d, "ten 12:00:20=1 ten 12:00:30=1 ten 12:00:40=1")
	if want := noon.Add(45 * time.Second); !d.Now().Equal(want) {
		t.Errorf("the clock shows %s, want %s", d.Now(), want)
	}
	if err := d.Restart(); err != nil {
		t.Fatal(err)
	}
	advance(t, d, 9*time.Second) // a restart begins anew
	wantOutput(t, d, "")
	advance(t, d, time.Second)
	wantOutput(t, d, "ten 12:00:55=1")
	advance(t, d, -time.Hour)
	wantOutput(t, d, "")
}

// TestRetriesOfPunctuations: they happen at once, with the same at, and move the clock.
func TestRetriesOfPunctuations(t *testing.T) {
	first := true
	d := ticking(t, func(c *topology.Context, _ string) error {
		if first = first && c.Attempt() < 9; first {
			return topology.Fail(topology.Transient, schemas.Reason("not yet"))
		}
		return nil
	}, topologytest.Clock(noon))
	pauses := 100 * time.Millisecond * (1 + 2 + 4 + 8 + 16 + 32 + 64 + 128) // 25.5 s
	advance(t, d, 11*time.Second)
	wantOutput(t, d, "ten 12:00:10=0")
	if elapsed := d.Now().Sub(noon); elapsed != 10*time.Second+pauses {
		t.Errorf("the clock has moved by %s", elapsed)
	}
	// It came due twice on the way, which is one firing.
	advance(t, d, 0)
	wantOutput(t, d, "ten 12:00:35=0")
	advance(t, d, 4*time.Second)
	wantOutput(t, d, "")
	advance(t, d, time.Second)
	wantOutput(t, d, "ten 12:00:40=0")
}

// TestStoppedByPunctuation: the error comes with every call until a restart, and no dead letter is
// written.
func TestStoppedByPunctuation(t *testing.T) {
	for _, name := range []string{"minute", "ten"} {
		fail := true
		d := ticking(t, func(_ *topology.Context, firing string) error {
			if fail && firing == name {
				panic("no")
			}
			return nil
		}, topologytest.Clock(noon))
		pipe(t, d, "a", 1)
		err := d.Advance(10 * time.Second)
		if name == "minute" {
			if err != nil {
				t.Fatal(err)
			}
			err = topologytest.Pipe(d, orders, "a", 1, topologytest.At(noon.Add(time.Minute)))
		}
		if f, ok := errors.AsType[*topology.Failure](err); !ok || f.Node != "count" ||
			!strings.Contains(err.Error(), "task orders_0 is stopped: node count: poison: panic") {
			t.Errorf("%s: the error is %v", name, err)
		}
		for range 2 {
			if err := d.Advance(time.Minute); err == nil {
				t.Errorf("%s: the task is not stopped any more", name)
			}
		}
		if letters, err := d.DeadLetters(); err != nil || len(letters) != 0 {
			t.Errorf("%s: dead letters %v, %v", name, letters, err)
		}
		output(t, d)
		fail = false
		if err := d.Restart(); err != nil {
			t.Fatal(err)
		}
		advance(t, d, 10*time.Second)
		want := "ten 12:02:20=1"
		if name == "minute" {
			want = "minute 12:01:00=2 ten 12:02:20=2"
		}
		wantOutput(t, d, want)
	}
}

// TestPartitionsPunctuateApart: every task has its own stream time and its own schedules.
func TestPartitionsPunctuateApart(t *testing.T) {
	d := ticking(t, quiet, topologytest.Clock(noon), topologytest.Partitions(2))
	for p := range int32(2) {
		pipe(t, d, "a", 1, topologytest.ToPartition(p))
	}
	pipe(t, d, "a", 1, topologytest.ToPartition(1), topologytest.At(noon.Add(time.Minute)))
	wantOutput(t, d, "minute 12:01:00=2")
	advance(t, d, 10*time.Second)
	wantOutput(t, d, "ten 12:00:10=1 ten 12:00:10=2")
}
