package projection_test

import (
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestWaitingGauge is requirement K1: how many records wait is counted when the task is opened, and
// every minute, and is 0 when none is left.
func TestWaitingGauge(t *testing.T) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	p := projection.Latest(topology.From(b, topology.Topic("in", schemas.String(), schemas.Int64())), "numbers",
		func(r topology.Record[string, int64]) (int64, error) { return r.Value, nil },
		func(old int64, _ bool, r topology.Record[string, int64]) (int64, error) { return old + r.Value, nil },
		schemas.Int64(), projection.FirstVersion(1), parkOption(10))
	p.Abandoned().Peek("end", func(topology.Record[string, projection.Abandoned[int64]]) error { return nil })
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	st, err := state.NewTask(memstore.New(), state.KeyValues("numbers", "numbers-parked", "numbers-queues"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(100, 0)
	open := func() *topology.Graph {
		g, err := top.NewGraph(graph.TaskID{Subtopology: "in"}, st, topology.GraphConfig{
			Partitions: func(string) int32 { return 1 }, Now: func() time.Time { return now },
		})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	wantGauge := func(g *topology.Graph, n int64) {
		t.Helper()
		want := []graph.GaugeReading{{Node: "numbers", Name: "waiting-records", Value: n}}
		if got := g.Gauges(); !slices.Equal(got, want) {
			t.Errorf("the gauges show %+v, want %+v", got, want)
		}
	}
	passMinute := func(g *topology.Graph) {
		t.Helper()
		now = now.Add(time.Minute)
		due, ok := g.Due(now)
		if !ok {
			t.Fatal("nothing is due")
		}
		if v := g.Punctuate(due); v.Action != graph.Accept || v.Wrote || len(v.Outputs)+len(v.Counts) > 0 {
			t.Errorf("counting has come to %+v", v)
		}
	}
	g := open()
	wantGauge(g, 0)
	for _, in := range []graph.Input{versionInput("a", 3), versionInput("a", 2), versionInput("b", 2)} {
		process(t, g, in)
	}
	passMinute(g)
	wantGauge(g, 3)
	g = open()
	wantGauge(g, 3)
	process(t, g, versionInput("a", 1))
	passMinute(g)
	wantGauge(g, 1)
	process(t, g, versionInput("b", 1))
	passMinute(g)
	wantGauge(g, 0)
}
