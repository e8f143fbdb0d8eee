package topologytest_test

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
	"github.com/onceward/onceward/topology/topologytest"
)

var (
	orders   = topology.Topic("orders", schemas.String(), schemas.Int64())
	others   = topology.Topic("others", schemas.String(), schemas.Int64())
	totals   = topology.Topic("totals", schemas.String(), schemas.Int64())
	totalsOf = topology.KeyValueStore("totals", schemas.String(), schemas.Int64())
)

type order = topology.Record[string, int64]

// total adds up the values by key. A negative value is a transient error until the attempt of that
// number.
func total(
	c *topology.Context, store state.KeyValue[string, int64], r order, emit topology.Emit[string, int64],
) error {
	if r.Value < 0 && int64(c.Attempt()) < -r.Value {
		return topology.Fail(topology.Transient, schemas.Reason("not yet"))
	}
	if r.Key == "stop" {
		return topology.Fail(topology.Fatal, schemas.Reason("told to stop"))
	}
	sum, _, err := store.Get(r.Key)
	if err != nil {
		return err
	}
	if err := store.Put(r.Key, sum+r.Value); err != nil {
		return err
	}
	return emit(c, topology.WithValue(r, sum+r.Value))
}

// shop reads orders by customer, sends them through a repartition topic by the last letter of the
// key, and adds them up.
func shop(tb testing.TB, opts ...topologytest.Option) *topologytest.Driver {
	tb.Helper()
	b := topology.NewBuilder("shop", topology.DeadLetters("dead"))
	byLetter := topology.SelectKey(topology.From(b, orders), "by-letter", func(r order) (string, error) {
		if r.Key == "" {
			return "", topology.Fail(topology.Validation, schemas.Reason("no customer"))
		}
		if r.Key == "stop" {
			return r.Key, nil
		}
		return r.Key[len(r.Key)-1:], nil
	})
	moved := topology.RepartitionWith(byLetter, "letters", schemas.String(), schemas.Int64())
	topology.Process(moved, "total", totalsOf, total).Into(totals)
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	d, err := topologytest.New(t, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func pipe(tb testing.TB, d *topologytest.Driver, key string, value int64, opts ...topologytest.PipeOption) {
	tb.Helper()
	if err := topologytest.Pipe(d, orders, key, value, opts...); err != nil {
		tb.Fatal(err)
	}
}

func output(tb testing.TB, d *topologytest.Driver) string {
	tb.Helper()
	records, err := topologytest.Output(d, totals)
	if err != nil {
		tb.Fatal(err)
	}
	var s []string
	for _, r := range records {
		s = append(s, fmt.Sprintf("%s=%d", r.Key, r.Value))
	}
	return strings.Join(s, " ")
}

func TestThroughRepartition(t *testing.T) {
	d := shop(t, topologytest.Partitions(6))
	for i, key := range []string{"anna", "berta", "bob", "eva"} {
		pipe(t, d, key, int64(i+1), topologytest.Header("n", fmt.Sprint(i)))
	}
	raw, err := d.OutputRaw("shop-letters-repartition")
	if err != nil || len(raw) != 4 || raw[0].Partition != graph.PartitionOf([]byte("a"), 6) ||
		string(raw[3].Headers[0].Value) != "3" {
		t.Errorf("the repartition topic has %v, %v", raw, err)
	}
	if got := output(t, d); got != "a=1 a=3 b=3 a=7" {
		t.Errorf("output: %s", got)
	}
	if got := output(t, d); got != "" {
		t.Errorf("output that was drained: %s", got)
	}
	// All records of one key met in one task.
	found := 0
	for p := range int32(6) {
		store, err := topologytest.Store(d, totalsOf, p)
		if err != nil {
			t.Fatal(err)
		}
		if sum, ok, err := store.Get("a"); err != nil {
			t.Fatal(err)
		} else if ok {
			found++
			if sum != 7 || p != graph.PartitionOf([]byte("a"), 6) {
				t.Errorf("partition %d has a=%d", p, sum)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d partitions have the key", found)
	}
}

func TestRetryIsImmediate(t *testing.T) {
	d := shop(t)
	start := d.Now()
	pipe(t, d, "a", -3) // succeeds on the third attempt
	if got := output(t, d); got != "a=-3" {
		t.Errorf("output: %s", got)
	}
	if waited := d.Now().Sub(start); waited != 300*time.Millisecond {
		t.Errorf("the clock has moved by %s, want 100 ms and 200 ms", waited)
	}
	pipe(t, d, "a", -100)
	letters, err := d.DeadLetters()
	if err != nil || len(letters) != 1 {
		t.Fatal(letters, err)
	}
	info := letters[0].Info
	if info.Attempts != 10 || info.Class != topology.Transient || !info.LastFailure.After(info.FirstFailure) {
		t.Errorf("the dead letter says %+v", info)
	}
	if d.Count("total", "dead-letter-transient") != 1 {
		t.Errorf("counts: %v", d.Counts())
	}
}

func TestDeadLetters(t *testing.T) {
	d := shop(t)
	pipe(t, d, "", 1)
	if err := d.PipeRaw("orders", []byte("anna"), []byte("no number")); err != nil {
		t.Fatal(err)
	}
	pipe(t, d, "anna", 5)
	letters, err := d.DeadLetters()
	if err != nil || len(letters) != 2 {
		t.Fatal(letters, err)
	}
	if l := letters[0]; l.Info.Node != "by-letter" || l.Info.Message != "no customer" ||
		l.Info.Origin.Offset != 0 {
		t.Errorf("the first dead letter says %+v", l.Info)
	}
	if l := letters[1]; l.Info.Node != "orders-source" || string(l.Value) != "no number" ||
		l.Info.Origin.Offset != 1 {
		t.Errorf("the second dead letter says %+v", l.Info)
	}
	if got := output(t, d); got != "a=5" {
		t.Errorf("output: %s", got)
	}
}

// TestStop: the task stays before the record that stopped it, the others go on, and Restart tries
// again.
func TestStop(t *testing.T) {
	d := shop(t, topologytest.Partitions(4))
	err := topologytest.Pipe(d, orders, "stop", 1)
	f, ok := errors.AsType[*topology.Failure](err)
	if !ok || f.Class != topology.Fatal || f.Node != "total" || !strings.Contains(err.Error(), "is stopped") {
		t.Fatalf("the error is %v", err)
	}
	stopped := graph.PartitionOf([]byte("stop"), 4)
	running := ""
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		if graph.PartitionOf([]byte(key), 4) != stopped {
			running = key
		}
	}
	if err := topologytest.Pipe(d, orders, running, 2); !errors.Is(err, f) {
		t.Errorf("the next record: %v", err)
	}
	if got := output(t, d); got != running+"=2" {
		t.Errorf("output: %s", got)
	}
	if err := d.Restart(); err == nil {
		t.Error("after a restart the record does not stop the task again")
	}
}

// TestRestart: what is in stores is there, and what is kept elsewhere is not.
func TestRestart(t *testing.T) {
	b := topology.NewBuilder("restart")
	n := topology.Stateful(topology.From(b, orders), "total", totalsOf)
	out := topology.Outlet[string, int64](n, "totals")
	n.Process(func(t *topology.Setup) (topology.Handler[string, int64], error) {
		store, emit, handled := totalsOf.In(t), out.In(t), t.Counter("handled")
		kept := int64(0)
		return func(c *topology.Context, r order) error {
			kept++
			handled.Inc()
			return total(c, store, topology.WithValue(r, r.Value+1000*kept), emit)
		}, nil
	})
	out.Stream().Into(totals)
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(built)
	if err != nil {
		t.Fatal(err)
	}
	pipe(t, d, "a", 1)
	pipe(t, d, "a", 1)
	if err := d.Restart(); err != nil {
		t.Fatal(err)
	}
	pipe(t, d, "a", 1)
	if got := output(t, d); got != "a=1001 a=3002 a=4003" {
		t.Errorf("output: %s", got)
	}
	if got := fmt.Sprint(d.Counts(), d.Count("total", "handled")); got != "[{total handled 3}] 3" {
		t.Errorf("counts: %s", got)
	}
}

// TestStreamTime: it is the largest timestamp of a record that did not fail.
func TestStreamTime(t *testing.T) {
	b := topology.NewBuilder("time", topology.DeadLetters("dead"))
	var times []int64
	topology.From(b, orders).Merge("both", topology.From(b, others)).Peek("see", func(r order) error {
		times = append(times, r.StreamTime()/1000)
		if r.Value < 0 {
			return schemas.Reason("negative")
		}
		return nil
	}).Into(totals)
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(built, topologytest.Clock(time.Unix(100, 0)))
	if err != nil {
		t.Fatal(err)
	}
	at := func(s int64) topologytest.PipeOption { return topologytest.At(time.Unix(s, 0)) }
	pipe(t, d, "a", 1, at(10))
	pipe(t, d, "a", 1, at(5))
	pipe(t, d, "a", -1, at(50))
	pipe(t, d, "a", 1, at(7))
	if err := topologytest.Pipe(d, others, "a", 1, at(20)); err != nil {
		t.Fatal(err)
	}
	pipe(t, d, "a", 1)
	if got := fmt.Sprint(times); got != "[10 10 50 10 20 100]" {
		t.Errorf("stream times: %s", got)
	}
	pipe(t, d, "a", 1, at(100+3601))
	if letters, err := d.DeadLetters(); err != nil || len(letters) != 2 {
		t.Errorf("a record that is ahead of the clock: %v, %v", letters, err)
	}
	if err := d.Advance(time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := d.Now().Unix(); got != 3700 {
		t.Errorf("the clock shows %d", got)
	}
}

// TestClockFollowsRecords, unless it is set.
func TestClockFollowsRecords(t *testing.T) {
	d := shop(t)
	if got := d.Now().Year(); got != 2000 {
		t.Errorf("the clock starts in %d", got)
	}
	pipe(t, d, "a", 1, topologytest.At(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)))
	if got := d.Now().Year(); got != 2030 {
		t.Errorf("the clock is in %d", got)
	}
}

func TestLimits(t *testing.T) {
	b := topology.NewBuilder("limits", topology.DeadLetters("dead"))
	raw := topology.Topic("raw", schemas.Bytes(), schemas.Bytes())
	topology.From(b, raw).Into(topology.Topic("copy", schemas.Bytes(), schemas.Bytes()))
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(built,
		topologytest.MaxMessageBytes("copy", 1000), topologytest.Compacted("copy"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2][]byte{{nil, []byte("v")}, {[]byte("k"), make([]byte, 1000)}, {[]byte("k"), nil}} {
		if err := topologytest.Pipe(d, raw, r[0], r[1]); err != nil {
			t.Fatal(err)
		}
	}
	letters, err := d.DeadLetters()
	if err != nil || len(letters) != 2 || letters[0].Info.Node != "copy-sink" ||
		!strings.Contains(letters[0].Info.Message, "null key") ||
		!strings.Contains(letters[1].Info.Message, "max.message.bytes") {
		t.Errorf("dead letters: %v, %v", letters, err)
	}
	if out, err := d.OutputRaw("copy"); err != nil || len(out) != 1 || out[0].Value != nil {
		t.Errorf("output: %v, %v", out, err)
	}
}

func TestErrors(t *testing.T) {
	d := shop(t, topologytest.Partitions(2))
	for want, f := range map[string]func() error{
		"does not read it; it reads orders, shop-letters-repartition": func() error {
			return d.PipeRaw("nowhere", nil, nil)
		},
		"pipe to totals: the topology does not read it": func() error {
			return d.PipeRaw("totals", nil, nil)
		},
		"partition 2 is not one of its 2": func() error {
			return topologytest.Pipe(d, orders, "a", 1, topologytest.ToPartition(2))
		},
		"pipe to orders: key: ": func() error {
			return topologytest.Pipe(d, orders, "\xff", 1)
		},
		"no such topic": func() error {
			_, err := d.OutputRaw("nowhere")
			return err
		},
		"has no store": func() error {
			_, err := topologytest.Store(d, topology.KeyValueStore("x", schemas.String(), schemas.String()), 0)
			return err
		},
		"has no partition 2": func() error {
			_, err := topologytest.Store(d, totalsOf, 2)
			return err
		},
		"output of totals: record 0: value: ": func() error {
			pipe(t, d, "a", 1)
			_, err := topologytest.Output(d, topology.Topic("totals", schemas.String(), schemas.Int32()))
			return err
		},
	} {
		err := f()
		if err == nil || !strings.HasPrefix(err.Error(), "topologytest: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	pipe(t, d, "a", 1, topologytest.ToPartition(1))

	b := topology.NewBuilder("two")
	topology.From(b, orders).Merge("both", topology.From(b, others)).Into(totals)
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topologytest.New(built, topologytest.TopicPartitions("orders", 2)); err == nil ||
		!strings.Contains(err.Error(), "different numbers of partitions") {
		t.Errorf("topics that do not fit: %v", err)
	}
	if _, err := topologytest.New(built, topologytest.Partitions(0)); err == nil {
		t.Error("a topic has no partitions")
	}
	if d, err = topologytest.New(built); err != nil {
		t.Fatal(err)
	}
	if _, err := d.DeadLetters(); err == nil || !strings.Contains(err.Error(), "no dead-letter topic") {
		t.Errorf("dead letters of a topology without: %v", err)
	}
}
