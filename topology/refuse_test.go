package topology_test

import (
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestRefuseAfterFailedPunctuation: a record that the cluster refuses is judged as a record, also
// if the unit before it was a punctuation that failed and is to be tried again.
func TestRefuseAfterFailedPunctuation(t *testing.T) {
	for _, wallClock := range []bool{false, true} {
		k := punctuated(t, broken(wallClock, func(*topology.Context) error {
			return topology.Fail(topology.Transient, schemas.Reason("not now"))
		}), topology.DeadLetters("dead"))
		unit := k.streamTimeUnit()
		if wallClock {
			good, _ := k.graph.Due(now.Add(1e9))
			want(t, k.graph.Punctuate(good), graph.Accept)
			unit = k.wallClockUnit()
		}
		want(t, unit(1), topology.Retry)
		v := want(t, k.graph.Refuse(k.at(0, 1, "v"), "too large"), topology.DeadLetter)
		if len(v.Outputs) != 1 || v.Wrote {
			t.Errorf("wall clock %v: the verdict has %d outputs, wrote %v", wallClock, len(v.Outputs), v.Wrote)
		}
	}
}
