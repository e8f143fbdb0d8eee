package task

import (
	"slices"
	"testing"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// TestHeadersAreKept: headers stay what they are while others are made, and cost less than an
// allocation each.
func TestHeadersAreKept(t *testing.T) {
	var h headers
	if got := h.of(nil); got != nil {
		t.Errorf("no headers are %v", got)
	}
	record := func(n int) []broker.RecordHeader {
		hs := make([]broker.RecordHeader, n)
		for i := range hs {
			hs[i] = broker.RecordHeader{Key: string(rune('a' + i%26)), Value: []byte{byte(n)}}
		}
		return hs
	}
	kept := map[int][]graph.Header{}
	for n := 1; n < 2*headersChunk; n++ {
		if kept[n] = h.of(record(n)); cap(kept[n]) != n {
			t.Fatalf("%d headers have room for %d", n, cap(kept[n]))
		}
	}
	for n, got := range kept {
		same := slices.EqualFunc(got, record(n), func(g graph.Header, w broker.RecordHeader) bool {
			return g.Key == w.Key && slices.Equal(g.Value, w.Value)
		})
		if !same {
			t.Errorf("%d headers became %v", n, got)
		}
	}
	two := record(2)
	if allocs := testing.AllocsPerRun(1000, func() { h.of(two) }); allocs > 0 {
		t.Errorf("two headers cost %v allocations", allocs)
	}
}
