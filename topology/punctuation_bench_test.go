package topology

import (
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// scheduledGraph is a task whose only node does nothing with records, and has n schedules of both
// kinds that do nothing either.
func scheduledGraph(tb testing.TB, n int, cfg GraphConfig) *Graph {
	tb.Helper()
	b := NewBuilder("scheduled")
	Stateful(From(b, benchIn), "node").Process(func(t *Setup) (Handler[string, int64], error) {
		for range n {
			t.OnStreamTime(time.Second, func(*Context, time.Time) error { return nil })
			t.OnWallClock(time.Second, func(*Context, time.Time) error { return nil })
		}
		return func(*Context, Record[string, int64]) error { return nil }, nil
	})
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	g, err := t.NewGraph(graph.TaskID{Subtopology: "in", Partition: 0}, nil, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func scheduledConfig() GraphConfig {
	opened := time.Now()
	return GraphConfig{Partitions: func(string) int32 { return 1 }, Now: func() time.Time { return opened }}
}

// BenchmarkSchedules is a record alone, one that moves the stream time and fires nothing, and one
// that fires.
func BenchmarkSchedules(b *testing.B) {
	for _, bench := range []struct {
		name string
		n    int
		step int64
	}{{"none", 0, 1}, {"quiet", 2, 0}, {"moving", 2, 1}, {"firing", 2, 1000}} {
		b.Run(bench.name, func(b *testing.B) {
			g, in := scheduledGraph(b, bench.n, scheduledConfig()), benchInputs(1)[0]
			b.ReportAllocs()
			for b.Loop() {
				in.StreamTimeBefore, in.StreamTime = in.StreamTime, in.StreamTime+bench.step
				if v := g.Process(in); v.Action != graph.Accept {
					b.Fatal(v.Failure)
				}
			}
		})
	}
}

// TestScheduleAllocations: firing costs what the punctuator costs. A record costs one allocation
// here, its key.
func TestScheduleAllocations(t *testing.T) {
	cfg := scheduledConfig()
	g, in := scheduledGraph(t, 2, cfg), benchInputs(1)[0]
	allocs := testing.AllocsPerRun(2000, func() {
		in.StreamTimeBefore, in.StreamTime = in.StreamTime, in.StreamTime+1000
		if v := g.Process(in); v.Action != graph.Accept {
			t.Fatal(v.Failure)
		}
	})
	if allocs > 1 {
		t.Errorf("a record that fires costs %v allocations, want 1", allocs)
	}
	now, fired := cfg.Now(), 0
	allocs = testing.AllocsPerRun(2000, func() {
		now = now.Add(time.Second)
		for p, ok := g.Due(now); ok; p, ok = g.Due(now) {
			p.StreamTime = state.NoTime
			if v := g.Punctuate(p); v.Action != graph.Accept {
				t.Fatal(v.Failure)
			}
			fired++
		}
	})
	if allocs != 0 || fired != 2*2001 {
		t.Errorf("%d punctuations cost %v allocations each time, want 0", fired, allocs)
	}
}
