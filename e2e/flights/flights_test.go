//go:build unix

package flights

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// TestFlights runs the pipeline over all rows on real Kafka, or over the first ones on the embedded
// broker. It kills it six times with an open transaction, once of these while it restores a task
// whose state is lost, and compares everything that it leaves behind with the recomputation. At
// last all state is lost, and has to come back from the changelogs.
func TestFlights(t *testing.T) {
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		rows := readRows(t)
		if c.Kind() == cluster.KindEmbedded {
			if testing.Short() {
				t.Skip("150,000 rows under kills; the run of all rows on real Kafka is the short one")
			}
			rows = rows[:embeddedRows]
		}
		inputs := inputsOf(t, rows, malformedCount)
		want := recompute(inputs, partitions)
		s := newScenario(t, c, inputs)
		if err := s.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		processed := time.Since(s.started)
		s.compare(t.Context(), want)
		s.compareRestored(t.Context(), want)
		t.Logf("%s: %d kills counted of %d tried, %d in a restore; transactions aborted: %d after kills, "+
			"%d by the pipeline itself; %.1f s to process, %.1f s in all", c.Kind(), s.kills.counted, s.kills.tried,
			s.kills.restoring, s.kills.open, s.aborts+s.lifeAborts, processed.Seconds(),
			time.Since(s.started).Seconds())
	})
}

// embeddedRows is how many rows are enough for a restore that takes long enough to be killed.
const embeddedRows = 150_000

// run does everything up to the orderly stop.
func (s *scenario) run(ctx context.Context) error {
	s.started = time.Now()
	if err := s.createTopics(ctx); err != nil {
		return err
	}
	if err := s.produce(ctx); err != nil {
		return err
	}
	s.t.Logf("%5.1f s: %d records produced", time.Since(s.started).Seconds(), len(s.inputs))
	s.start()
	for _, share := range []float64{0.12, 0.28, 0.44, 0.60, 0.76} {
		if err := s.killAt(ctx, share); err != nil {
			return fmt.Errorf("kill at %.0f %%: %w", 100*share, err)
		}
		if share == 0.60 {
			if err := s.killRestore(ctx, largestTask()); err != nil {
				return fmt.Errorf("kill in a restore: %w", err)
			}
		}
		s.start()
	}
	return s.finish(ctx)
}

// largestTask is the task that has the carrier with the most flights, and so the longest restore.
func largestTask() state.TaskDirectory {
	return state.TaskDirectory{
		Subtopology: byCarrierNode, Partition: graph.PartitionOf([]byte("UA"), partitions),
	}
}
