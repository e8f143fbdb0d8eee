package transition_test

import (
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// benchGraph is the task of a guard of doors that open and shut, or of the source and what reads
// alone.
func benchGraph(tb testing.TB, guard bool) *topology.Graph {
	tb.Helper()
	b := topology.NewBuilder("bench", topology.DeadLetters("dead"))
	s := topology.From(b, topology.Topic("in", schemas.String(), schemas.Int64()))
	read := func(r topology.Record[string, int64]) (transition.Transition[State], error) {
		t := transition.Transition[State]{ID: strconv.FormatInt(r.Value, 10), From: "shut", To: "open"}
		switch round := r.Value / aggregates; {
		case round == 0:
			t.From = ""
		case round%2 == 1:
			t.From, t.To = t.To, t.From
		}
		return t, nil
	}
	if guard {
		transition.Guard(s, "doors", doors, read)
	} else {
		s.Peek("read", func(r topology.Record[string, int64]) error {
			kept, _ = read(r)
			return nil
		})
	}
	return processortest.OpenGraph(tb, b, 1)
}

// aggregates is how many doors there are.
const aggregates = 64

// kept keeps the compiler from leaving out a transition that nobody reads.
var kept transition.Transition[State]

// benchInput returns transition i, which is new for every i and the next one of its door.
func benchInput(i int) graph.Input {
	return graph.Input{
		Topic: "in", Offset: int64(i), Timestamp: 1, StreamTime: 1,
		Key:   strconv.AppendInt([]byte("door-"), int64(i%aggregates), 10),
		Value: binary.BigEndian.AppendUint64(nil, uint64(i)),
	}
}

func process(tb testing.TB, g *topology.Graph, in graph.Input) {
	if v := g.Process(in); v.Action != graph.Accept {
		tb.Fatal(v.Failure)
	}
}

func BenchmarkGuard(b *testing.B) {
	b.Run("source alone", func(b *testing.B) { benchmark(b, false, func(i int) int { return i }) })
	b.Run("accepted", func(b *testing.B) { benchmark(b, true, func(i int) int { return i }) })
	b.Run("duplicates", func(b *testing.B) { benchmark(b, true, func(int) int { return 0 }) })
}

func benchmark(b *testing.B, guard bool, id func(i int) int) {
	g := benchGraph(b, guard)
	process(b, g, benchInput(0))
	b.ReportAllocs()
	i := 1
	for b.Loop() {
		process(b, g, benchInput(id(i)))
		i++
	}
}

// TestAllocations holds the cost of the guard itself: two rows; the states of the row that is read,
// with the list of those before; and the new list.
func TestAllocations(t *testing.T) {
	count := func(guard bool, id func(i int) int) float64 {
		g, i := benchGraph(t, guard), 0
		for ; i < 4*aggregates; i++ {
			process(t, g, benchInput(i))
		}
		return testing.AllocsPerRun(2000, func() {
			process(t, g, benchInput(id(i)))
			i++
		})
	}
	each, same := func(i int) int { return i }, func(int) int { return 0 }
	if n := count(true, each) - count(false, each); n > 8 {
		t.Errorf("an accepted transition costs %v allocations, want 8 at most", n)
	}
	if n := count(true, same) - count(false, same); n > 4 {
		t.Errorf("a duplicate costs %v allocations, want 4 at most", n)
	}
}
