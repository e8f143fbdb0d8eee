package topology

import (
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/topology/graph"
)

var (
	benchIn    = Topic("in", schemas.String(), schemas.Int64())
	benchOut   = Topic("out", schemas.String(), schemas.Int64())
	benchStore = KeyValueStore("sums", schemas.String(), schemas.Int64())
)

// benchGraph is a task of three steps (filter, a node with a store, map) and a sink.
func benchGraph(tb testing.TB) *Graph {
	tb.Helper()
	b := NewBuilder("bench", DeadLetters("bench.dead"))
	positive := From(b, benchIn).Filter("positive", func(r Record[string, int64]) (bool, error) {
		return r.Value >= 0, nil
	})
	sums := Process(positive, "sums", benchStore, func(
		c *Context, store state.KeyValue[string, int64], r Record[string, int64], emit Emit[string, int64],
	) error {
		sum, _, err := store.Get(r.Key)
		if err != nil {
			return err
		}
		sum += r.Value
		if err := store.Put(r.Key, sum); err != nil {
			return err
		}
		return emit(c, WithValue(r, sum))
	})
	MapValues(sums, "double", func(v int64) (int64, error) {
		return 2 * v, nil
	}).Into(benchOut)
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return benchTask(tb, t, state.KeyValues("sums"))
}

// benchTask is the task of the subtopology "in", with its stores in memory.
func benchTask(tb testing.TB, t *Topology, stores []state.Declaration) *Graph {
	tb.Helper()
	st, err := state.NewTask(memstore.New(), stores)
	if err != nil {
		tb.Fatal(err)
	}
	g, err := t.NewGraph(graph.TaskID{Subtopology: "in", Partition: 0}, st, GraphConfig{
		Partitions:      func(string) int32 { return 6 },
		MaxMessageBytes: func(string) int32 { return 1 << 20 },
		Now:             time.Now,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// fixedKeyGraph is benchGraph with a node that cannot change the key.
func fixedKeyGraph(tb testing.TB) *Graph {
	tb.Helper()
	b := NewBuilder("bench")
	ProcessValues(From(b, benchIn), "sums", benchStore, func(
		c *Context, store state.KeyValue[string, int64], r Record[string, int64], emit EmitFixedKey[int64],
	) error {
		sum, _, err := store.Get(r.Key)
		if err != nil {
			return err
		}
		if err := store.Put(r.Key, sum+r.Value); err != nil {
			return err
		}
		return emit(c, FixedKey(sum+r.Value))
	}).Into(benchOut)
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return benchTask(tb, t, state.KeyValues("sums"))
}

// partitionedGraph copies a topic into one with a partitioner.
func partitionedGraph(tb testing.TB) *Graph {
	tb.Helper()
	b := NewBuilder("bench")
	From(b, benchIn).Into(benchOut.PartitionedBy(PartitionBy("by-value",
		func(_ string, _ string, value int64, partitions int32) int32 { return int32(value % int64(partitions)) })))
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return benchTask(tb, t, nil)
}

func benchInputs(n int) []graph.Input {
	const at = 1_700_000_000_000
	traceparent := []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	headers := []Header{{Key: "traceparent", Value: traceparent}}
	inputs := make([]graph.Input, n)
	for i := range inputs {
		inputs[i] = graph.Input{
			Topic: "in", Offset: int64(i), Timestamp: at, StreamTime: at, Attempt: 1,
			Key: []byte("key-" + strconv.Itoa(i)), Value: binary.BigEndian.AppendUint64(nil, uint64(i)),
			Headers: headers,
		}
	}
	return inputs
}

// BenchmarkProcess is one record through a source, a filter, a node that reads and writes a store,
// a map, and a sink.
func BenchmarkProcess(b *testing.B) {
	g, inputs := benchGraph(b), benchInputs(1024)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if v := g.Process(inputs[i&1023]); v.Action != graph.Accept || len(v.Outputs) != 1 {
			b.Fatal(v.Failure)
		}
		i++
	}
}

// TestProcessAllocations holds the promise of the package documentation: one allocation is the
// codec's (the key as a string), and chunks of memory come to far less than one.
func TestProcessAllocations(t *testing.T) {
	inputs := benchInputs(64)
	for name, g := range map[string]*Graph{"any key": benchGraph(t), "a fixed key": fixedKeyGraph(t), "a partitioner": partitionedGraph(t)} {
		i := 0
		allocs := testing.AllocsPerRun(2000, func() {
			if v := g.Process(inputs[i&63]); v.Action != graph.Accept {
				t.Fatal(v.Failure)
			}
			i++
		})
		if allocs > 1 {
			t.Errorf("%s: a record costs %v allocations, want 1", name, allocs)
		}
	}
}

// passGraph copies records whose key and value it is lent.
func passGraph(tb testing.TB) *Graph {
	tb.Helper()
	b := NewBuilder("bench", DeadLetters("bench.dead"))
	From(b, Topic[string, []byte]("in", schemas.StringView(), schemas.BytesView())).Into(Topic("out", schemas.String(), schemas.Bytes()))
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return benchTask(tb, t, nil)
}

// TestViewsAllocateNothing: a record that is lent and written costs no allocation but its share of a
// chunk.
func TestViewsAllocateNothing(t *testing.T) {
	g, inputs, i := passGraph(t), benchInputs(64), 0
	allocs := testing.AllocsPerRun(2000, func() {
		if v := g.Process(inputs[i&63]); v.Action != graph.Accept || len(v.Outputs) != 1 {
			t.Fatal(v.Failure)
		}
		i++
	})
	if allocs > 0 {
		t.Errorf("a record costs %v allocations", allocs)
	}
}
