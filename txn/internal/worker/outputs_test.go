package worker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/task"
)

// smallSet is an empty set whose batches hold 1000 bytes.
func smallSet() *batch.Set { return batch.NewSet(func(string) int { return 1000 }) }

// largeSet is an empty set with the default limit of batches.
func largeSet() *batch.Set { return batch.NewSet(func(string) int { return 1_000_012 }) }

// TestOriginsOfOutputs: the search for a refused record finds the entries that wrote to a
// partition, in their order and each once. A record that no batch can hold is among them.
func TestOriginsOfOutputs(t *testing.T) {
	r := newRound(0, outputs{set: smallSet()})
	one, other := &task.Contribution{Task: &task.Task{}}, &task.Contribution{Task: &task.Task{}}
	r.contributions = []*task.Contribution{one, other}
	out := func(topic string, partition int32, size int) graph.Output {
		return graph.Output{Topic: topic, Partition: partition, Value: make([]byte, size)}
	}
	add := func(c *task.Contribution, outs ...graph.Output) {
		c.Journal = append(c.Journal, task.Entry{})
		r.add(c, outs)
	}
	add(one, out("A", 0, 10), out("A", 1, 10), out("A", 1, 10))
	add(other, out("B", 0, 10))
	add(one, out("A", 1, 5000))
	add(other, out("A", 1, 10))
	add(one)
	add(one, out("A", 1, 10))
	found := r.suspectsOf("A", 1)
	if len(found) != 2 || found[0].Contribution != one || found[1].Contribution != other {
		t.Fatalf("%d contributions wrote to the partition", len(found))
	}
	if e := found[0].entries; len(e) != 3 || e[0] != 0 || e[1] != 1 || e[2] != 3 {
		t.Errorf("the entries are %v, want 0, 1 and 3", e)
	}
	if e := found[1].entries; len(e) != 1 || e[0] != 1 {
		t.Errorf("the entries are %v, want 1", e)
	}
	if found := r.suspectsOf("C", 0); len(found) > 0 {
		t.Error("somebody wrote to a partition that is no destination")
	}
	unfit := r.outputs.unfit
	if unfit == nil || unfit.Topic != "A" || unfit.Partition != 1 || broker.ScopeOf(unfit) != broker.ScopeRecord {
		t.Errorf("the record that no batch can hold is answered by %v", unfit)
	}
	if unfit := broker.Unfit("A", 1, batch.ErrTooLarge); broker.Decide(broker.Producing, unfit) != broker.Refused ||
		broker.ScopeOf(kerr.MessageTooLarge) != broker.ScopeOf(unfit) {
		t.Error("a record that no batch can hold is treated otherwise than one that the broker refuses")
	}
}

// TestLargestRecordFitsABatch: the graph and the batches count alike. The largest record that the
// graph lets through fits a batch of its topic, and one byte more does not.
func TestLargestRecordFitsABatch(t *testing.T) {
	const limit = 20 << 10
	b := topology.NewBuilder("limits")
	topology.From(b, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	g, err := top.NewGraph(graph.TaskID{Subtopology: "in"}, nil, topology.GraphConfig{
		Now: time.Now, Partitions: func(string) int32 { return 1 }, MaxMessageBytes: func(string) int32 { return limit },
	})
	if err != nil {
		t.Fatal(err)
	}
	fits := func(out graph.Output) bool {
		o := outputs{set: batch.NewSet(func(string) int { return limit })}
		o.add(0, 0, []graph.Output{out})
		return o.unfit == nil
	}
	for n := limit; ; n-- {
		v := g.Process(graph.Input{Topic: "in", Key: []byte("k"), Value: make([]byte, n)})
		if v.Action != graph.Accept {
			continue
		}
		out := v.Outputs[0]
		if !fits(out) {
			t.Errorf("a record with a value of %d bytes passes the graph, and fits no batch", n)
		}
		out.Value = make([]byte, n+1)
		if fits(out) {
			t.Errorf("a record with a value of %d bytes fits a batch, and the graph refuses it", n+1)
		}
		return
	}
}

// TestSpareOutputs: the memory of a round is used again, empty, unless the round was far smaller
// than the list that it used.
func TestSpareOutputs(t *testing.T) {
	var s spare
	c := &task.Contribution{Journal: make([]task.Entry, 1)}
	out := []graph.Output{{Topic: "out", Value: make([]byte, 100)}}
	taken := s.take(largeSet)
	r := newRound(0, taken)
	r.contributions = []*task.Contribution{c}
	for range 2 * originsMin {
		r.add(c, out)
	}
	for _, b := range r.outputs.take(true) {
		b.Release() // as acknowledged
	}
	s.put(r.outputs)
	again := s.take(func() *batch.Set { t.Error("a set was made"); return largeSet() })
	if again.set != taken.set || again.records() != 0 || again.bytes() != 0 || cap(again.origins) < 2*originsMin {
		t.Errorf("%d records of %d bytes came back, with room for %d", again.records(), again.bytes(), cap(again.origins))
	}
	again.origins = again.origins[:10]
	s.put(again)
	if third := s.take(largeSet); third.origins != nil {
		t.Error("a list that is far longer than its round was kept")
	}
	s.put(outputs{set: largeSet()})
	s.put(outputs{set: largeSet()})
	s.put(outputs{set: largeSet()})
	if len(s.outputs) != 2 {
		t.Errorf("the memory of %d rounds is kept, want 2", len(s.outputs))
	}
}

// TestAheadOfTheSeal: whole batches are sent ahead, and small ones only where much waits in many
// partitions.
func TestAheadOfTheSeal(t *testing.T) {
	c := &task.Contribution{Journal: make([]task.Entry, 1)}
	fill := func(partitions, bytes int) *round {
		r := newRound(0, outputs{set: largeSet()})
		r.contributions = []*task.Contribution{c}
		for n := 0; n < bytes; n += 1000 {
			r.add(c, []graph.Output{{Topic: "out", Partition: int32(n / 1000 % partitions), Value: make([]byte, 1000)}})
		}
		return r
	}
	if r := fill(4, 64<<10); r.outputs.ahead(streamBytes) {
		t.Error("a quarter of what is enough is sent ahead")
	}
	few := fill(4, 300<<10)
	if !few.outputs.ahead(streamBytes) || len(few.outputs.take(false)) != 4 {
		t.Error("whole batches are not sent ahead")
	}
	if r := fill(500, 300<<10); r.outputs.ahead(streamBytes) {
		t.Error("batches of one record are sent ahead")
	}
	many := fill(500, manyTimes*streamBytes)
	if !many.outputs.ahead(streamBytes) || len(many.outputs.take(false)) != 500 || many.outputs.set.Waiting() != 0 {
		t.Error("small batches of which there is much are not sent ahead")
	}
}

// addMany is a round of outputs with its end.
func addMany(s *spare, c *task.Contribution, out []graph.Output, taken []*batch.Batch, n int) {
	r := round{outputs: s.take(largeSet), contributions: []*task.Contribution{c}}
	for range n {
		r.add(c, out)
	}
	taken = r.outputs.set.Take(true, taken[:0])
	for _, b := range taken {
		b.Release() // as acknowledged
	}
	s.put(r.outputs)
}

// TestOutputsAllocateNothing: for a record that user code has returned, nothing is allocated until
// it is in a batch.
func TestOutputsAllocateNothing(t *testing.T) {
	if virtual.RaceDetector {
		t.Skip("pools drop at random under the race detector")
	}
	var s spare
	c, taken := &task.Contribution{Journal: make([]task.Entry, 1)}, make([]*batch.Batch, 0, 64)
	out := []graph.Output{{Topic: "out", Key: make([]byte, 8), Value: make([]byte, 100), Headers: []graph.Header{{Key: "h"}}}}
	const n = 20_000
	if allocs := testing.AllocsPerRun(10, func() { addMany(&s, c, out, taken, n) }); allocs > 10 { // for the round, not for its records
		t.Errorf("%v allocations for %d records", allocs, n)
	}
}

// BenchmarkRoundAdd is a round of outputs after the other.
func BenchmarkRoundAdd(b *testing.B) {
	var s spare
	c, taken := &task.Contribution{Journal: make([]task.Entry, 1)}, make([]*batch.Batch, 0, 64)
	out := []graph.Output{{Topic: "out", Key: make([]byte, 8), Value: make([]byte, 100)}}
	b.ReportAllocs()
	const n = 20_000
	for b.Loop() {
		addMany(&s, c, out, taken, n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
}
