package worker

import (
	"testing"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/task"
)

// The byte bound of a round covers everything that its outputs hold: a header may be larger than
// the value (rule 9.6).
func TestRoundCountsHeaders(t *testing.T) {
	r, c := newRound(0, lists{}), &task.Contribution{Journal: make([]task.Entry, 1)}
	var slab slab
	r.add(c, []graph.Output{{
		Topic: "out", Key: make([]byte, 10), Value: make([]byte, 20),
		Headers: []topology.Header{{Key: "trace", Value: make([]byte, 1000)}, {Key: "span", Value: make([]byte, 500)}},
	}}, &slab)
	const want = outputOverhead + 10 + 20 + 5 + 1000 + 4 + 500
	if r.total != want || r.waiting != want {
		t.Errorf("the round counts %d bytes, %d of them waiting; want %d", r.total, r.waiting, want)
	}
}
