package admin

import (
	"bytes"
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
)

// sight is what was found of a task.
type sight struct {
	restore.Sight
	target
	// bounds are those of the logs of its inputs.
	bounds []bounds
}

type bounds struct{ start, end int64 }

// invalidate makes the next look read everything again.
func (op *operation) invalidate() { op.kept, op.modes = nil, nil }

// parallelLooks bounds how many tasks are looked at together: a look can wait for a while, and does
// not cost much.
const parallelLooks = 16

// together looks at n tasks at the same time, as far as parallelLooks allows.
func together(n int, look func(i int)) {
	free := make(chan struct{}, parallelLooks)
	var all sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			look(i)
		})
	}
	all.Wait()
}

// lookAll looks at every task, in their order.
func (op *operation) lookAll(ctx context.Context) ([]sight, error) {
	sights, errs := make([]sight, len(op.tasks)), make([]error, len(op.tasks))
	together(len(op.tasks), func(i int) { sights[i], errs[i] = op.look(ctx, op.tasks[i]) })
	return sights, cmp.Or(errs...)
}

func (op *operation) look(ctx context.Context, t target) (sight, error) {
	seen, err := op.restorer.Look(ctx, op.request(t))
	if err != nil {
		return sight{}, err
	}
	s := sight{Sight: seen, target: t}
	s.Now = time.Time{} // two sights of the same thing are equal
	for _, in := range s.Inputs {
		var b bounds
		if _, comes := op.coming[in.Topic]; comes {
			s.bounds = append(s.bounds, b)
			continue
		}
		if b.start, _, err = op.cluster.LogBounds(ctx, in.Topic, in.Partition); err != nil {
			return sight{}, err
		}
		if b.end, err = op.cluster.StableEnd(ctx, in.Topic, in.Partition); err != nil {
			return sight{}, err
		}
		s.bounds = append(s.bounds, b)
	}
	return s, nil
}

// keptPositions returns what the last clean stop has kept of a task in the rounds topic (rule 7.6);
// nil if there is nothing.
func (op *operation) keptPositions(ctx context.Context, t target) (*task.CommitMetadata, error) {
	if op.kept == nil {
		kept, err := op.readKept(ctx)
		if err != nil {
			return nil, err
		}
		op.kept = kept
	}
	metadata := op.kept[string(task.PositionsKey(t.id.String()))]
	if metadata == "" {
		return nil, nil //nolint:nilnil // nothing is an answer
	}
	return op.restorer.Parse(ctx, op.request(t), metadata)
}

// readKept reads what clean stops have kept of all tasks. The topic can hold much more: the
// metadata of every round that was too large for its commit, until they are compacted.
func (op *operation) readKept(ctx context.Context) (map[string]string, error) {
	t := op.layout[op.restorer.RoundsTopic]
	start, _, err := op.cluster.LogBounds(ctx, t.Name, 0)
	if err != nil {
		return nil, err
	}
	end, err := op.cluster.StableEnd(ctx, t.Name, 0)
	if err != nil {
		return nil, err
	}
	kept := map[string]string{}
	err = newReading(op.cluster, t.Name, t.ID, 0).each(ctx, start, end, func(r *broker.Record) error {
		if bytes.HasPrefix(r.Key, task.PositionsKey("")) {
			kept[string(r.Key)] = string(r.Value)
		}
		return nil
	}, nil)
	return kept, err
}
