package ends

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/waits"
)

// reads are the inputs that tasks read.
type reads map[dispatch.Input]graph.TaskID

func (r reads) Inputs() map[dispatch.Input]graph.TaskID { return maps.Clone(r) }

var (
	first  = dispatch.Input{Topic: "in", Partition: 0}
	second = dispatch.Input{Topic: "in", Partition: 1}
	both   = reads{first: {Subtopology: "in"}, second: {Subtopology: "in", Partition: 1}}
)

// TestEndsAreShownWhileTheyAreNew: a listing that is too old is not shown.
func TestEndsAreShownWhileTheyAreNew(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	var e inputEnds
	if got := e.read(now, time.Minute); got != nil {
		t.Errorf("before the first listing the ends are %v", got)
	}
	listed := PartitionEnds{"in": {0: {HighWatermark: 9, LastStable: 7}}}
	e.last.Store(&listedEnds{now, listed})
	for age, want := range map[time.Duration]PartitionEnds{0: listed, time.Minute: listed, time.Minute + 1: nil} {
		if got := e.read(now.Add(age), time.Minute); !reflect.DeepEqual(got, want) {
			t.Errorf("after %s the ends are %v, want %v", age, got, want)
		}
	}
}

// held returns the inputs that are reported as held, with the tasks that wait.
func held(w *waits.Waits) string {
	var out []string
	for _, h := range w.All() {
		out = append(out, h.Topic+" "+strings.Join(h.Tasks, " "))
	}
	return strings.Join(out, ", ")
}

// TestInputThatStaysBelowItsEndIsHeld: an input is held if its last stable offset stays below the
// high watermark from one listing to the next, and until it moves, reaches the end, or no task
// reads the input. An input that is not listed stays as it was.
func TestInputThatStaysBelowItsEndIsHeld(t *testing.T) {
	cfg := Config{Tasks: both, Waits: waits.New(nil, time.Hour, slog.New(slog.DiscardHandler), nil)}
	waiting := inputWaits{}
	for i, step := range []struct {
		what           string
		stable0, high0 int64 // of the first partition; the other one is at its end
		unlisted       bool
		want           string
	}{
		{what: "the first listing", stable0: 5, high0: 9},
		{what: "the same again", stable0: 5, high0: 9, want: "in in_0"},
		{what: "records are written behind", stable0: 5, high0: 12, want: "in in_0"},
		{what: "it is not listed", unlisted: true, want: "in in_0"},
		{what: "it moves", stable0: 6, high0: 12},
		{what: "it stays again", stable0: 6, high0: 12, want: "in in_0"},
		{what: "it is at the end", stable0: 12, high0: 12},
		{what: "it stays at the end", stable0: 12, high0: 12},
	} {
		listed := map[string]map[int32]broker.End{"in": {1: {HighWatermark: 3, LastStable: 3}}}
		if !step.unlisted {
			listed["in"][0] = broker.End{HighWatermark: step.high0, LastStable: step.stable0}
		}
		waiting.look(t.Context(), cfg, listed)
		if got := held(cfg.Waits); got != step.want {
			t.Errorf("step %d, %s: held are %q, want %q", i, step.what, got, step.want)
		}
	}
	stuck := map[string]map[int32]broker.End{"in": {0: {HighWatermark: 9, LastStable: 5}, 1: {HighWatermark: 9, LastStable: 5}}}
	waiting.look(t.Context(), cfg, stuck)
	waiting.look(t.Context(), cfg, stuck)
	if got := held(cfg.Waits); got != "in in_0, in in_1" {
		t.Errorf("held are %q", got)
	}
	cfg.Tasks = reads{second: both[second]}
	waiting.look(t.Context(), cfg, stuck)
	if got := held(cfg.Waits); got != "in in_1" || len(waiting) != 1 {
		t.Errorf("after one is given up held are %q, of %d that are followed", got, len(waiting))
	}
	waiting.over(nil)
	if got := held(cfg.Waits); got != "" || len(waiting) != 0 {
		t.Errorf("at the end held are %q", got)
	}
}

// TestRunListsEnds: the ends of all inputs are there a moment after the start, stable and high.
// Ends that the brokers do not tell are not shown.
func TestRunListsEnds(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		network := virtual.NewNetwork(t, 1)
		kafka := virtual.NewKafka(t, network, 1, kfake.SeedTopics(2, "in"))
		cluster, err := broker.Connect(t.Context(), broker.Config{
			Brokers: kafka.Brokers(), Dialer: network.Host("app").Dial, Logger: slog.New(slog.DiscardHandler),
		}, "app")
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		writer := kafka.Client(t, "writer", kgo.TransactionalID("writer"), kgo.TransactionTimeout(10*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := writer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := writer.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.DiscardHandler)
		w := New(Config{
			Cluster: cluster, Topics: []string{"in", "in"}, Tasks: both, Waits: waits.New(cluster, time.Hour, log, nil), Logger: log,
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(ctx)
		}()
		time.Sleep(3 * endsEvery)
		want := PartitionEnds{"in": {0: {HighWatermark: 1, LastStable: 0}, 1: {}}}
		if got := w.Ends(); !reflect.DeepEqual(got, want) {
			t.Errorf("the ends are %v, want %v", got, want)
		}
		if got := held(w.cfg.Waits); got != "in in_0" {
			t.Errorf("held are %q", got)
		}
		away := kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.UnknownServerError, Count: -1})
		time.Sleep(2 * endsEvery)
		if got := w.Ends(); len(got) != 0 || away.Hits() == 0 {
			t.Errorf("without an answer the ends are %v", got)
		}
		away.Remove()
		time.Sleep(2 * endsEvery)
		if got := w.Ends(); !reflect.DeepEqual(got, want) {
			t.Errorf("afterwards the ends are %v, want %v", got, want)
		}
		cancel()
		<-ended
		if got := held(w.cfg.Waits); got != "" {
			t.Errorf("after the end held are %q", got)
		}
	})
}
