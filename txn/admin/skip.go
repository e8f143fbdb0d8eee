package admin

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/task"
)

// AcceptSkip takes offsets that were moved forward on purpose, by a tool that does not know the
// state. The state stays as it is, the input between is left out, and offsets and state are
// committed together. Tasks that open anyway are left alone.
//
// It is refused if an offset was moved back, because input would be applied twice. It is refused if
// the offsets for which the state was written are unknown: neither the commit nor the record of a
// clean stop names them, or the changelogs have continued since. Parked records are as with Adopt.
func (a *Application) AcceptSkip(ctx context.Context, o Options) (Report, error) {
	return a.act(ctx, "accept-skip", o, func(op *operation) planner { return op.acceptSkip })
}

func (op *operation) acceptSkip(ctx context.Context, s inspection) (change, error) {
	if s.Named() {
		return change{reason: nothing}, nil
	}
	if err := s.refuseFromSource(); err != nil {
		return change{}, err
	}
	if err := s.refuseHalf(); err != nil {
		return change{}, err
	}
	wanted, committed := make([]int64, len(s.Inputs)), false
	for i, in := range s.Inputs {
		wanted[i] = in.Committed
		committed = committed || in.Committed >= 0
	}
	if !committed {
		return change{}, refuse("it has no committed offset that could have been moved: where offsets have expired, "+
			"`onceward adopt --from-rounds %s%s`; otherwise `onceward rebuild from-input %s`", s.parkedFlag(), s.id, s.id)
	}
	last, err := op.lastPositions(ctx, s)
	if err != nil {
		return change{}, err
	}
	if last == nil {
		return change{}, refuse("the offsets for which the state was written are unknown: the commit does not name them, and the last "+
			"stop was not a clean one. `onceward adopt %s%s` if the state belongs to the committed offsets, or "+
			"`onceward rebuild from-input %s`", s.parkedFlag(), s.id, s.id)
	}
	next, err := op.skip(ctx, s, last, wanted)
	if err != nil {
		return change{}, err
	}
	return change{reason: s.reason(), next: next, keepsState: true, keeps: last}, nil
}

// Reset moves committed offsets, and commits them together with the state that they belong to,
// which stays as it is. Topics that offsets does not name stay where they are. A task with stores
// can only go forward: input that is in its state already would be applied twice. A task without
// stores goes anywhere. Parked records are as with Adopt.
func (a *Application) Reset(ctx context.Context, o Options, offsets Offsets) (Report, error) {
	return a.act(ctx, "reset", o, func(op *operation) planner {
		return func(ctx context.Context, s inspection) (change, error) { return op.reset(ctx, s, offsets) }
	})
}

func (op *operation) reset(ctx context.Context, s inspection, offsets Offsets) (change, error) {
	if err := op.knowsTopics(offsets); err != nil {
		return change{}, err
	}
	if !s.Named() {
		if waits := s.withoutPlace(s.Commit); len(waits) > 0 && !op.withoutParked {
			return change{}, s.noPlace(waits[0])
		}
		if err := s.refuseHalf(); err != nil {
			return change{}, err
		}
		if err := s.refuseFromSource(); err != nil {
			return change{}, err
		}
		return change{}, refuse("%s: see to that first, with %s", s.reason(), s.recoveryActions())
	}
	wanted, moves := make([]int64, len(s.Inputs)), false
	for i, in := range s.Inputs {
		wanted[i] = in.Committed
		if named, known := s.Commit.Input(in.Topic); known && wanted[i] < 0 {
			wanted[i] = named.Offset
		}
		if at, named := offsets[in.Topic]; named {
			wanted[i] = s.resolve(i, at)
		} else if wanted[i] < 0 {
			wanted[i] = in.Start
		}
		moves = moves || wanted[i] != in.Committed
	}
	if !moves {
		return change{reason: "it is there already"}, nil
	}
	if err := s.refuseFromSource(); err != nil {
		return change{}, err
	}
	if s.HasState && s.Commit != nil {
		next, err := op.skip(ctx, s, s.Commit, wanted)
		return change{reason: "the operator moves it", next: next, keepsState: true, keeps: s.Commit}, err
	}
	// There is no state that could contain anything, as far as the topology has it: parked records
	// can wait beside it.
	next := &state.Positions{}
	for i, in := range s.Inputs {
		if err := s.inLog(i, wanted[i]); err != nil {
			return change{}, err
		}
		next.Inputs = append(next.Inputs, state.Input{
			Topic: in.Topic, Partition: in.Partition, Offset: wanted[i], StreamTime: state.NoTime,
		})
	}
	for _, c := range s.Changelogs {
		next.Changelogs = append(next.Changelogs, positionIn(c, 0, 0))
	}
	next.Round = declared(next.Changelogs)
	next.State = next.Round
	return change{reason: "the operator moves it", next: next, keepsState: true, keeps: s.Commit}, nil
}

// recoveryActions are the commands for a task whose state and offsets do not name each other.
func (s inspection) recoveryActions() string {
	flag := s.parkedFlag()
	return fmt.Sprintf("`onceward accept-skip %s%s`, `onceward adopt %s%s` or `onceward rebuild from-input %s`", flag, s.id, flag, s.id, s.id)
}

// skip returns the positions of a state that was written up to last, with its inputs at the wanted
// offsets, none of which may be lower. An input without an offset stays where the state is.
func (op *operation) skip(ctx context.Context, s inspection, last *task.CommitMetadata, wanted []int64) (*state.Positions, error) {
	if err := op.describesState(ctx, s, last); err != nil {
		return nil, err
	}
	next := &state.Positions{Round: last.Round, State: last.State, Changelogs: positionsOf(s, last)}
	for i, in := range s.Inputs {
		at := wanted[i]
		named, known := last.Input(in.Topic)
		switch {
		case !known:
			named.StreamTime = state.NoTime // a new input: nothing of it is in the state
			if at < 0 {
				at = in.Start
			}
		case at < 0:
			at = named.Offset
		case at < named.Offset:
			return nil, refuse("the offset of %s[%d] goes back from %d to %d, and the state has the input between already, which would be "+
				"applied twice: set it to %d or more, or `onceward rebuild from-input %s`", in.Topic, in.Partition, named.Offset, at,
				named.Offset, s.id)
		}
		if err := s.inLog(i, at); err != nil {
			return nil, err
		}
		next.Inputs = append(next.Inputs, state.Input{
			Topic: in.Topic, Partition: in.Partition, Offset: at, StreamTime: named.StreamTime,
		})
	}
	return next, nil
}

// resolve returns the wanted offset of the i-th input as a number.
func (s inspection) resolve(i int, offset int64) int64 {
	switch offset {
	case Start:
		return s.bounds[i].start
	case End:
		return s.bounds[i].end
	}
	return offset
}

// knowsTopics refuses offsets of topics that no selected task reads, and offsets that mean nothing.
func (op *operation) knowsTopics(offsets Offsets) error {
	read := map[string]bool{}
	for _, t := range op.tasks {
		for _, src := range t.sub.Sources {
			read[src.Topic] = true
		}
	}
	for topic, at := range offsets {
		if !read[topic] {
			return refuse("none of the tasks reads the topic %s", topic)
		}
		if at < Start {
			return refuse("%d is no offset of %s", at, topic)
		}
	}
	return nil
}
