package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/restore"
)

// modeSource is what says a mode.
type modeSource int

const (
	// ofCommit is the last known commit of the task; without one nothing says a mode.
	ofCommit modeSource = iota
	// ofOthers are the last known commits of the application's other tasks.
	ofOthers
	// ofOperator is Options.Mode.
	ofOperator
)

// committedMode is what an operator's commit says of the mode.
type committedMode struct {
	topology.Mode
	// modeless says that it says none, and that Mode is Live.
	modeless bool
	from     modeSource
}

// modeOf returns the mode in which a change of a task is committed: that of its last known commit.
// If no commit is known, or the commit says none, an operator's commit does not say one either, and
// the first round decides. Adopted state is an exception. It was written in some mode, and a commit
// without a mode would make it usable in any mode: see adoptedMode.
func (op *operation) modeOf(ctx context.Context, s inspection, c change) (committedMode, error) {
	last, err := op.lastPositions(ctx, s)
	switch {
	case err != nil:
		return committedMode{}, err
	case c.adopts && (last == nil || last.Modeless):
		return op.adoptedMode(ctx, s)
	case last == nil:
		return committedMode{modeless: true}, nil
	}
	return committedMode{Mode: last.Mode, modeless: last.Modeless}, nil
}

// adoptedMode returns the mode of adopted state if its commit does not say it. It is the mode in
// the last known commits of the application's tasks, also of those that are not acted on, or
// Options.Mode. If neither says one, the adoption is refused. Rejected: to take the state for Live,
// as most state is. The operator of a replay would then be told that the application has run live,
// and to continue so, and would call other systems.
func (op *operation) adoptedMode(ctx context.Context, s inspection) (committedMode, error) {
	if op.modes == nil {
		modes, err := op.knownModes(ctx)
		if err != nil {
			return committedMode{}, err
		}
		op.modes = modes
	}
	says := make([]string, len(op.modes))
	for i, m := range op.modes {
		says[i] = m.String()
	}
	others := "and the commits of the application's other tasks say " + strings.Join(says, " and ")
	switch {
	case op.mode != nil && *op.mode >= topology.Forensic:
		return committedMode{}, refuse("no application has run in mode %s", *op.mode)
	case op.mode != nil && len(op.modes) > 0 && !slices.Contains(op.modes, *op.mode):
		return committedMode{}, refuse("no commit of it is known that says in which mode its state was written, %s, and not %s: leave --mode "+
			"out, or say which of them it is", others, *op.mode)
	case op.mode != nil:
		return committedMode{Mode: *op.mode, from: ofOperator}, nil
	case len(op.modes) == 1:
		return committedMode{Mode: op.modes[0], from: ofOthers}, nil
	case len(op.modes) == 0:
		others = "nor one of another task"
	}
	return committedMode{}, refuse("no commit of it is known that says in which mode its state was written, %s: say it, by "+
		"`onceward adopt --mode MODE %s`; what a replay has made must not count as live, which calls other systems", others, s.id)
}

// knownModes returns the modes that the last known commits of the application's tasks say.
func (op *operation) knownModes(ctx context.Context) ([]topology.Mode, error) {
	modes := []topology.Mode{} // not nil: it is known if there are none
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
	offsets, err := stableOffsets(ctx, op.cluster, op.client.cfg.Logger, partitions)
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
