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
	r, c := newRound(0, outputs{set: largeSet()}), &task.Contribution{Journal: make([]task.Entry, 1)}
	r.contributions = append(r.contributions, c)
	r.add(c, []graph.Output{{
		Topic: "out", Key: make([]byte, 10), Value: make([]byte, 20),
		Headers: []topology.Header{{Key: "trace", Value: make([]byte, 1000)}, {Key: "span", Value: make([]byte, 500)}},
	}})
	const least = 10 + 20 + 5 + 1000 + 4 + 500
	if n, waiting := r.outputs.bytes(), r.outputs.set.Waiting(); n < least || waiting < least || n > least+100 {
		t.Errorf("the round counts %d bytes, %d of them waiting; want a little more than %d", n, waiting, least)
	}
}
