package topologytest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// shopTopology is that of shop.
func shopTopology(tb testing.TB) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder("shop", topology.DeadLetters("dead"))
	moved := topology.RepartitionWith(topology.From(b, orders), "by-customer", schemas.String(), schemas.Int64())
	topology.Process(moved, "total", totalsOf, total).Into(totals)
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func TestChecked(t *testing.T) {
	d := topologytest.Start(t, shopTopology(t), topologytest.Partitions(4))
	in, out := topologytest.In(d, orders), topologytest.Out(d, totals)
	out.Want()
	in.Pipe("anna", 3, topologytest.At(time.UnixMilli(1000)))
	in.Pipe("anna", 4, topologytest.At(time.UnixMilli(2000)))
	in.Pipe("bob", 1)
	records := out.Want(topologytest.KV("anna", int64(3)), topologytest.KV("anna", int64(7)), topologytest.KV("bob", int64(1)))
	if records[1].Timestamp != 2000 {
		t.Errorf("the timestamp is %d", records[1].Timestamp)
	}
	in.Pipe("anna", -100)
	d.WantDead("total: transient")
	d.WantDead()
	d.WantCount("total", "dead-letter-transient", 1)
	store := topologytest.Stored(d, totalsOf, graph.PartitionOf([]byte("anna"), 4))
	if sum, ok, err := store.Get("anna"); sum != 7 || !ok || err != nil {
		t.Errorf("the store has %d, %v, %v", sum, ok, err)
	}
	d.Advance(time.Hour)
	d.Restart()
	if err := in.Stops("stop", 1); !strings.Contains(err.Error(), "told to stop") {
		t.Errorf("the error is %v", err)
	}
	want := "[dead orders shop-by-customer-repartition totals]"
	if got := fmt.Sprint(d.Topics()); got != want {
		t.Errorf("topics: %s, want %s", got, want)
	}
}

func TestCheckedCommits(t *testing.T) {
	d := topologytest.Start(t, shopTopology(t), topologytest.CommitByHand())
	in, out := topologytest.In(d, orders), topologytest.Out(d, totals)
	in.Pipe("anna", 3)
	d.Commit()
	d.Crash()
	d.Abort()
	out.Want()
	d.Commit()
	out.Want(topologytest.KV("anna", int64(3)))
}

// failing is a test that notes its failure, and ends as a test does.
type failing struct{ text string }

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	panic(f)
}

// TestCheckedFails: each check that does not hold fails the test, and says what was found and what
// was wanted.
func TestCheckedFails(t *testing.T) {
	unread := topology.Topic("unread", schemas.String(), schemas.Int64())
	for want, f := range map[string]func(d *topologytest.Test){
		"totals has:\n\ta = 1\nwant:\n\tnothing": func(d *topologytest.Test) {
			topologytest.Out(d, totals).Want()
		},
		"totals has:\n\ta = 1\nwant:\n\ta = 1\n\ta = 2": func(d *topologytest.Test) {
			topologytest.Out(d, totals).Want(topologytest.KV("a", int64(1)), topologytest.KV("a", int64(2)))
		},
		"totals has:\n\ta = 1\nwant:\n\tb = 1": func(d *topologytest.Test) {
			topologytest.Out(d, totals).Want(topologytest.KV("b", int64(1)))
		},
		"output of totals: record 0: value": func(d *topologytest.Test) {
			topologytest.Out(d, topology.Topic("totals", schemas.String(), schemas.Int32())).Read()
		},
		"the topology has no topic unread; it has dead, orders, ": func(d *topologytest.Test) {
			topologytest.Out(d, unread)
		},
		"pipe to unread: the topology does not read it": func(d *topologytest.Test) { topologytest.In(d, unread) },
		"task by-customer_0 is stopped: node total: fatal: told to stop": func(d *topologytest.Test) {
			topologytest.In(d, orders).Pipe("stop", 1)
		},
		"the record in orders stops no task": func(d *topologytest.Test) {
			_ = topologytest.In(d, orders).Stops("a", 1)
		},
		"node total has counted x 0 times, want 1": func(d *topologytest.Test) { d.WantCount("total", "x", 1) },
		"dead letters:\n\tnothing\nwant:\n\ttotal: poison": func(d *topologytest.Test) {
			d.WantDead("total: poison")
		},
		"dead letters:\n\ttotal: transient: not yet\nwant:\n\tnothing": func(d *topologytest.Test) {
			topologytest.In(d, orders).Pipe("a", -100)
			d.WantDead()
		},
		"Commit: each unit of work is committed at once": func(d *topologytest.Test) { d.Commit() },
		"Crash: each unit of work is committed at once":  func(d *topologytest.Test) { d.Crash() },
		"Abort: each unit of work is committed at once":  func(d *topologytest.Test) { d.Abort() },
		"a = 1\n(1 units of work are not committed and so not visible)": func(*topologytest.Test) {
			d := topologytest.Start(&failing{}, shopTopology(t), topologytest.CommitByHand())
			topologytest.In(d, orders).Pipe("a", 1)
			topologytest.Out(d, totals).Want(topologytest.KV("a", int64(1)))
		},
		"has no partition 7": func(d *topologytest.Test) { topologytest.Stored(d, totalsOf, 7) },
		"cannot have 0 partitions": func(d *topologytest.Test) {
			topologytest.Start(&failing{}, shopTopology(t), topologytest.Partitions(0))
		},
	} {
		text := func() (text string) {
			tb := &failing{}
			d := topologytest.Start(tb, shopTopology(t))
			topologytest.In(d, orders).Pipe("a", 1)
			defer func() {
				if failed, ok := recover().(*failing); ok {
					text = failed.text
				}
			}()
			f(d)
			return "it has not failed"
		}()
		if !strings.Contains(text, want) {
			t.Errorf("the failure is %q, want %q", text, want)
		}
	}
}

// TestManyDeletions: what is deleted stays deleted from one round to the next, and in scans as
// well.
func TestManyDeletions(t *testing.T) {
	b := topology.NewBuilder("queue")
	queue := topology.KeyValueStore("queue", schemas.Int64(), schemas.Int64())
	n := topology.Stateful(topology.From(b, orders), "queue", queue)
	n.Process(func(t *topology.Setup) (topology.Handler[string, int64], error) {
		store := queue.In(t)
		return func(_ *topology.Context, r order) error {
			if err := store.Put(r.Value, r.Value); err != nil {
				return err
			}
			for e, err := range store.All() {
				if err != nil {
					return err
				}
				if e.Value != r.Value {
					return schemas.Reason("an entry is back")
				}
				if err := store.Delete(e.Key); err != nil {
					return err
				}
				break
			}
			return nil
		}, nil
	})
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.Start(t, built)
	in := topologytest.In(d, orders)
	for i := range int64(5_000) {
		in.Pipe("a", i)
	}
	for e, err := range topologytest.Stored(d, queue, 0).All() {
		t.Fatalf("left: %v, %v", e, err)
	}
}
