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

// inspection is the state of a task on the cluster, with the bounds of its inputs.
type inspection struct {
	restore.Inspection
	target
	// bounds are those of the logs of its inputs.
	bounds []bounds
}

type bounds struct{ start, end int64 }

// invalidate makes the next inspection read everything again.
func (op *operation) invalidate() { op.kept, op.modes = nil, nil }

// parallelInspections bounds how many tasks are inspected together: an inspection can wait for a
// while, and does not cost much.
const parallelInspections = 16

// together calls inspect for n tasks, at most parallelInspections at a time.
func together(n int, inspect func(i int)) {
	free := make(chan struct{}, parallelInspections)
	var all sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			inspect(i)
		})
	}
	all.Wait()
}

// inspectAll inspects every task, in their order.
func (op *operation) inspectAll(ctx context.Context) ([]inspection, error) {
	inspections, errs := make([]inspection, len(op.tasks)), make([]error, len(op.tasks))
	together(len(op.tasks), func(i int) { inspections[i], errs[i] = op.inspect(ctx, op.tasks[i]) })
	return inspections, cmp.Or(errs...)
}

func (op *operation) inspect(ctx context.Context, t target) (inspection, error) {
	inspected, err := op.restorer.Inspect(ctx, op.request(t))
	if err != nil {
		return inspection{}, err
	}
	s := inspection{Inspection: inspected, target: t}
	s.Now = time.Time{} // two inspections of the same thing are equal
	for _, in := range s.Inputs {
		var b bounds
		if _, comes := op.coming[in.Topic]; comes {
			s.bounds = append(s.bounds, b)
			continue
		}
		if b.start, _, err = op.cluster.LogBounds(ctx, in.Topic, in.Partition); err != nil {
			return inspection{}, err
		}
		if b.end, err = op.cluster.StableEnd(ctx, in.Topic, in.Partition); err != nil {
			return inspection{}, err
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
