package ends

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/waits"
)

const (
	// endsEvery is how often the ends of the inputs are listed, for the lag.
	endsEvery = 5 * time.Second
	// endsKept is for how many of these periods an answer is shown when no newer one comes.
	endsKept = 6
)

// Config is what a Watch needs of its session.
type Config struct {
	Cluster *broker.Cluster
	// Topics are the inputs.
	Topics []string
	// Tasks tells which inputs are read now.
	Tasks interface {
		Inputs() map[dispatch.Input]graph.TaskID
	}
	Waits  *waits.Waits
	Logger *slog.Logger
}

// Watch lists the ends of inputs, and follows for which transactions inputs wait.
type Watch struct {
	cfg  Config
	ends inputEnds
}

// New returns a watch that has not begun.
func New(cfg Config) *Watch {
	cfg.Topics = slices.Compact(slices.Sorted(slices.Values(cfg.Topics)))
	return &Watch{cfg: cfg}
}

// PartitionEnds are the ends of input partitions.
type PartitionEnds map[string]map[int32]broker.End

// inputEnds are the last ends that were listed.
type inputEnds struct {
	last atomic.Pointer[listedEnds]
}

type listedEnds struct {
	at   time.Time
	ends PartitionEnds
}

// read returns the ends unless they are older than kept: no lag is better than a wrong one.
func (e *inputEnds) read(now time.Time, kept time.Duration) PartitionEnds {
	last := e.last.Load()
	if last == nil || now.Sub(last.at) > kept {
		return nil
	}
	return last.ends
}

// watchInputs follows for which transactions inputs wait, by each listing that it gets, until ctx
// ends.
func (w *Watch) watchInputs(ctx context.Context, listed <-chan map[string]map[int32]broker.End) {
	waiting := inputWaits{}
	defer waiting.over(nil)
	for {
		select {
		case <-ctx.Done():
			return
		case ends := <-listed:
			waiting.look(ctx, w.cfg, ends)
		}
	}
}

// Run lists the ends of all inputs again and again, until ctx ends. Fetches would tell them too,
// but not of partitions that are paused, restored or stopped, nor while an open transaction keeps a
// fetch from returning: exactly when lag is looked at.
func (w *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	// A look at what holds an input can take long, and each held partition needs one. The listing
	// does not wait for them.
	listed := make(chan map[string]map[int32]broker.End, 1)
	var looking sync.WaitGroup
	looking.Go(func() { w.watchInputs(ctx, listed) })
	defer looking.Wait()
	for {
		asked, cancel := context.WithTimeout(ctx, endsEvery)
		ends, err := w.cfg.Cluster.Ends(asked, w.cfg.Topics...)
		cancel()
		if err == nil {
			w.ends.last.Store(&listedEnds{time.Now(), ends})
			select {
			case listed <- ends:
			default: // still at the one before
			}
		} else if ctx.Err() == nil {
			w.cfg.Logger.Debug("the lag is not known", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Ends returns the ends of all inputs, as of a few seconds ago; what is not known is missing.
func (w *Watch) Ends() PartitionEnds { return w.ends.read(time.Now(), endsEvery*endsKept) }
