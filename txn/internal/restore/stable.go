package restore

import (
	"context"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/waits"
)

// stableWait follows the reading of a changelog that may reach the last stable offset. Behind it
// reading continues only when another producer's open transaction ends.
type stableWait struct{ *waits.Wait }

func (r *Restorer) watchStable(topic string, id graph.TaskID) stableWait {
	return stableWait{r.Waits.On(waits.Changelog, topic, id.Partition, id.String())}
}

// fetched takes the answer to a fetch at an offset below the target: where the next one goes on.
func (w stableWait) fetched(ctx context.Context, at, next int64) {
	if next > at {
		w.Over()
	} else {
		w.Still(ctx)
	}
}
