package projection_test

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// benchGraph is the task of a projection of numbers, whose versions are the values of the records.
func benchGraph(tb testing.TB, opts ...projection.Option) *topology.Graph {
	tb.Helper()
	b := topology.NewBuilder("bench", topology.DeadLetters("dead"))
	s := topology.From(b, topology.Topic("in", schemas.String(), schemas.Int64()))
	p := projection.Latest(s, "numbers",
		func(r topology.Record[string, int64]) (int64, error) { return r.Value, nil },
		func(old int64, _ bool, r topology.Record[string, int64]) (int64, error) { return old + r.Value, nil },
		schemas.Int64(), opts...)
	if len(opts) > 0 {
		p.Abandoned().Peek("end", func(topology.Record[string, projection.Abandoned[int64]]) error { return nil })
	}
	return processortest.OpenGraph(tb, b, 1)
}

// benchKeys is how many keys take turns.
const benchKeys = 64

// benchInput returns record i of records that come in the order of their versions, to keys by
// turns.
func benchInput(i int) graph.Input {
	return versionInput(strconv.Itoa(i%benchKeys), 1+i/benchKeys)
}

func versionInput(key string, version int) graph.Input {
	return graph.Input{
		Topic: "in", Offset: int64(version), Timestamp: 1, StreamTime: 1,
		Key: append([]byte("key-"), key...), Value: binary.BigEndian.AppendUint64(nil, uint64(version)),
	}
}

func process(tb testing.TB, g *topology.Graph, in graph.Input) {
	if v := g.Process(in); v.Action != graph.Accept {
		tb.Fatal(v.Failure)
	}
}

func parkOption(records int) projection.Option {
	return projection.ParkGaps(schemas.Int64(), projection.Limits{Records: records, StreamTime: time.Hour})
}

func BenchmarkLatest(b *testing.B) {
	inOrder := func(b *testing.B, g *topology.Graph) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			process(b, g, benchInput(i))
			i++
		}
	}
	b.Run("in order", func(b *testing.B) { inOrder(b, benchGraph(b)) })
	b.Run("in order, may wait", func(b *testing.B) { inOrder(b, benchGraph(b, parkOption(10))) })
	for _, waiting := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("in order, %d wait", waiting), func(b *testing.B) {
			inOrder(b, waitingGraph(b, waiting))
		})
	}
	b.Run("by pairs in reverse", func(b *testing.B) {
		g := benchGraph(b, parkOption(10))
		process(b, g, versionInput("k", 0))
		b.ReportAllocs()
		version := 1
		for b.Loop() {
			process(b, g, versionInput("k", version+1))
			process(b, g, versionInput("k", version))
			version += 2
		}
	})
}

// waitingGraph is the task of a projection with a key for which that many records wait.
func waitingGraph(tb testing.TB, n int) *topology.Graph {
	g := benchGraph(tb, parkOption(n))
	process(tb, g, versionInput("behind", 1))
	for i := range n {
		process(tb, g, versionInput("behind", 3+i))
	}
	return g
}

// TestAllocations holds what a record costs that is the next one of its key: with ParkGaps no more
// than without, since the look whether one waits for it needs none, however many wait for other
// keys.
func TestAllocations(t *testing.T) {
	count := func(g *topology.Graph) float64 {
		i := 0
		for ; i < 2*benchKeys; i++ {
			process(t, g, benchInput(i))
		}
		return testing.AllocsPerRun(2000, func() {
			process(t, g, benchInput(i))
			i++
		})
	}
	alone := count(benchGraph(t))
	for name, g := range map[string]*topology.Graph{
		"none waits": benchGraph(t, parkOption(10)), "many wait": waitingGraph(t, 1000),
	} {
		if n := count(g); n > alone {
			t.Errorf("where %s, a record costs %v allocations, and %v without ParkGaps", name, n, alone)
		}
	}
}

// TestPairsInReverse: what it costs that a record waits for one other does not grow with how many
// of its key have done so before.
func TestPairsInReverse(t *testing.T) {
	g := benchGraph(t, parkOption(10))
	process(t, g, versionInput("k", 0))
	version := 1
	pairs := func(n int) float64 {
		return testing.AllocsPerRun(n, func() {
			process(t, g, versionInput("k", version+1))
			process(t, g, versionInput("k", version))
			version += 2
		})
	}
	first := pairs(100)
	if later := pairs(10_000); later > first+3 {
		t.Errorf("a pair costs %v allocations at first, and %v later", first, later)
	}
}
