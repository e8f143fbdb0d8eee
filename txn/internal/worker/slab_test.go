package worker

import (
	"testing"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/task"
)

// fill lends n records and writes into each.
func fill(s *slab, l *lent, n int) []*broker.Record {
	out := make([]*broker.Record, n)
	for i := range out {
		out[i] = s.next(l)
		out[i].Topic, out[i].Partition, out[i].Headers = "out", int32(i), append(out[i].Headers, broker.RecordHeader{Key: "h"})
	}
	return out
}

// TestSlabLendsEachRecordOnce: what one round has, no other gets before it is given back, and then
// it is empty.
func TestSlabLendsEachRecordOnce(t *testing.T) {
	const n = 2*slabRecords + 10
	var s slab
	var front, back lent
	taken := map[*broker.Record]bool{}
	for _, r := range append(fill(&s, &front, n), fill(&s, &back, n)...) {
		if taken[r] {
			t.Fatal("a record was lent twice")
		}
		taken[r] = true
	}
	s.takeBack(&front)
	if len(front.chunks) > 0 {
		t.Error("a round that has given back what it was lent still has it")
	}
	if len(s.free) != 3 {
		t.Fatalf("%d chunks are free, want 3", len(s.free))
	}
	var third lent
	for range n {
		r := s.next(&third)
		if r.Topic != "" || r.Partition != 0 || r.Headers != nil {
			t.Fatalf("a record is lent with what another round has written: %+v", r)
		}
	}
	if len(s.free) != 0 {
		t.Error("records were made although others are free")
	}
	for i, chunk := range back.chunks {
		for j := range chunk[:min(slabRecords, n-i*slabRecords)] {
			if chunk[j].Topic != "out" {
				t.Fatal("a record that is lent was changed")
			}
		}
	}
}

// TestSlabForgetsBursts: after a large round small ones keep what they need, and what an aborted
// round was lent is never lent again.
func TestSlabForgetsBursts(t *testing.T) {
	var s slab
	var large, small, aborted lent
	fill(&s, &large, 50*slabRecords)
	s.takeBack(&large)
	gone := fill(&s, &aborted, 1)[0]
	fill(&s, &small, 1)
	s.takeBack(&small)
	if len(s.free) != 2 {
		t.Errorf("%d chunks are free after a round of one, want 2", len(s.free))
	}
	var next lent
	for _, r := range fill(&s, &next, 3*slabRecords) {
		if r == gone {
			t.Fatal("a record of an aborted round was lent again")
		}
	}
}

// TestReusedListsAreEmpty: a list that comes back has nothing in it that would keep records alive,
// and one of a burst does not come back.
func TestReusedListsAreEmpty(t *testing.T) {
	var s spare
	long := lists{make([]*broker.Record, 2*listsMin), make([]origin, 2*listsMin)}
	s.put(lists{long.outputs[:10], long.origins[:10]})
	if got := s.take(); got.outputs != nil || got.origins != nil {
		t.Error("lists that are far longer than their round were kept")
	}
	for i := range long.outputs {
		long.outputs[i], long.origins[i] = &broker.Record{}, origin{&task.Contribution{}, i}
	}
	s.put(long)
	got := s.take()
	if len(got.outputs) != 0 || len(got.origins) != 0 || cap(got.outputs) != 2*listsMin {
		t.Fatalf("lists of %d and %d with room for %d came back", len(got.outputs), len(got.origins), cap(got.outputs))
	}
	for i, r := range got.outputs[:cap(got.outputs)] {
		if r != nil || got.origins[:cap(got.origins)][i] != (origin{}) {
			t.Fatal("an old output is kept alive")
		}
	}
}

// BenchmarkRoundAdd is a round of outputs after the other.
func BenchmarkRoundAdd(b *testing.B) {
	w, c := &Worker{}, &task.Contribution{Journal: make([]task.Entry, 1)}
	out := []graph.Output{{Topic: "out", Key: make([]byte, 8), Value: make([]byte, 100)}}
	b.ReportAllocs()
	r := newRound(0, w.spare.take())
	for i := range b.N {
		r.add(c, out, &w.slab)
		if i%20_000 == 0 {
			w.reuse(r)
			r = newRound(0, w.spare.take())
		}
	}
}
