package dispatch

import (
	"errors"
	"fmt"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/worker"
)

// TestWhyStopped: of several reasons the same one is told every time, and one that ends the process
// with the exit code of damaged data before all others.
func TestWhyStopped(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	lost := fmt.Errorf("%w: records were deleted", worker.ErrIntegrity)
	corrupt := &topology.Failure{Class: topology.Corruption, Err: errors.New("a row")}
	for _, tc := range []struct {
		reasons []error
		want    error
		stopped int
	}{
		{[]error{nil, nil}, nil, 0},
		{[]error{nil, second, first}, second, 2},
		{[]error{first, second, lost, corrupt}, lost, 4},
		{[]error{first, corrupt, lost}, corrupt, 3},
		{[]error{first, fmt.Errorf("%w: a table", state.ErrCorrupt)}, state.ErrCorrupt, 2},
	} {
		for range 20 { // the order of a map
			d := New(Config{})
			for p, why := range tc.reasons {
				id := graph.TaskID{Subtopology: "in", Partition: int32(p)}
				d.Stop(id, d.Enter(id), why, false)
			}
			if n, _, why := d.Stopped(); n != tc.stopped || !errors.Is(why, tc.want) {
				t.Fatalf("of %v: %d, %v", tc.reasons, n, why)
			}
		}
	}
}
