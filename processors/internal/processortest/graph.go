package processortest

import (
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// OpenGraph builds a topology of one subtopology, and opens its task for partition 0 with state in
// memory, for a benchmark that calls the graph itself. Topics that it writes have that many
// partitions.
func OpenGraph(tb testing.TB, b *topology.Builder, partitions int32) *topology.Graph {
	tb.Helper()
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	sub := t.Subtopologies()[0]
	st, err := state.NewTask(memstore.New(), sub.Declarations())
	if err != nil {
		tb.Fatal(err)
	}
	g, err := t.NewGraph(graph.TaskID{Subtopology: sub.Name}, st, topology.GraphConfig{
		Partitions: func(string) int32 { return partitions }, Now: time.Now,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return g
}
