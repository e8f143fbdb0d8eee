package admin

import (
	"context"
	"slices"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/restore"
)

// modeOf returns the mode in which a change of a task is committed: that of its last known commit. With none known, or one that says none, it
// is not for an operator's commit to say, and modeless is true: the first round decides. State that is adopted is something else. It was
// written in some mode, and in a commit of none it would be anybody's: it has the mode on which the tasks of the application agree.
func (op *operation) modeOf(ctx context.Context, s sight, c change) (mode topology.Mode, modeless bool, err error) {
	last, err := op.lastPositions(ctx, s)
	switch {
	case err != nil:
		return topology.Live, false, err
	case c.adopts && (last == nil || last.Modeless):
		mode, err = op.agreedMode(ctx)
		return mode, false, err
	case last == nil:
		return topology.Live, true, nil
	}
	return last.Mode, last.Modeless, nil
}

// agreedMode returns the mode that the last known commits of the application's tasks say, also of those that are not acted on. It is Live
// where they differ or none is known: what runs in another mode then has to name that one as a mode before.
func (op *operation) agreedMode(ctx context.Context) (topology.Mode, error) {
	if op.agreed == nil {
		modes, err := op.modes(ctx)
		if err != nil {
			return topology.Live, err
		}
		agreed := topology.Live
		if len(modes) == 1 {
			agreed = modes[0]
		}
		op.agreed = &agreed
	}
	return *op.agreed, nil
}

// modes returns the modes that the last known commits of the application's tasks say.
func (op *operation) modes(ctx context.Context) (modes []topology.Mode, err error) {
	tasks, err := selectTasks(op.topology, op.layout, nil)
	if err != nil {
		return nil, err
	}
	type partition struct {
		topic  string
		number int32
	}
	first, partitions := map[partition]target{}, map[string][]int32{} // the commit of a task is with its first input
	for _, t := range tasks {
		topic := t.sub.Sources[0].Topic
		first[partition{topic, t.id.Partition}] = t
		partitions[topic] = append(partitions[topic], t.id.Partition)
	}
	offsets, err := op.cluster.StableOffsets(ctx, partitions)
	if err != nil {
		return nil, err
	}
	for _, o := range offsets {
		t := first[partition{o.Topic, o.Partition}]
		last, err := op.restorer.Parse(ctx, restore.Request{Task: t.id}, o.Metadata)
		if err == nil && last == nil {
			last, err = op.keptPositions(ctx, t)
		}
		if err != nil {
			return nil, err
		}
		if says := last != nil && !last.Modeless; says && !slices.Contains(modes, last.Mode) {
			modes = append(modes, last.Mode)
		}
	}
	return modes, nil
}
