package ends

import (
	"context"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/waits"
)

// inputWaits follows the last stable offsets of the inputs of tasks that are open: one that stays
// below the high watermark from one listing to the next is held by a transaction. It belongs to one
// goroutine, which is not the one that lists them.
type inputWaits map[dispatch.Input]*inputWait

type inputWait struct {
	stable int64
	wait   *waits.Wait
}

// look takes what was listed.
func (w inputWaits) look(ctx context.Context, cfg Config, ends map[string]map[int32]broker.End) {
	open := cfg.Tasks.Inputs()
	w.over(open)
	for at, id := range open {
		end, listed := ends[at.Topic][at.Partition]
		if !listed {
			continue
		}
		in := w[at]
		if in == nil {
			in = &inputWait{stable: -1, wait: cfg.Waits.On(waits.Input, at.Topic, at.Partition, id.String())}
			w[at] = in
		}
		if end.LastStable < end.HighWatermark && end.LastStable == in.stable {
			in.wait.Still(ctx)
		} else {
			in.wait.Over()
		}
		in.stable = end.LastStable
	}
}

// over ends the waits of inputs that are not open.
func (w inputWaits) over(open map[dispatch.Input]graph.TaskID) {
	for at, in := range w {
		if _, is := open[at]; !is {
			in.wait.Over()
			delete(w, at)
		}
	}
}
