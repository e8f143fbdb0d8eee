package admin

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
)

// nothing is the reason of a task that needs nothing.
const nothing = "state and offsets name each other"

// Adopt declares that the whole state in the changelogs belongs to the offsets that the group has
// committed, and commits both together. The operator is responsible for this, because nothing can
// check it. If the state already contains input behind the offsets, that input is applied twice. If
// the state lacks input before the offsets, that input is missing. Tasks that open anyway are left
// alone.
//
// Adopt is refused with a Refusal unless the group is empty and every input of the task has a
// committed offset inside its log. It is also refused if parked records wait (topology.ParkKeys)
// for which the topology has no store, or which its changelog has lost, unless
// Options.WithoutParked gives them up. If no known commit says which records wait, the changelogs
// say it, also those of stores that the topology does not have. Adopt waits for transactions that
// are open on the changelogs.
//
// State of which no commit is known counts as written in the mode that the commits of the
// application's other tasks say. Where these differ, or none says it, it is refused unless
// Options.Mode does: a replay that was taken for live would call other systems. TaskReport.Mode has
// it.
func (a *Application) Adopt(ctx context.Context, o Options) (Report, error) {
	return a.act(ctx, "adopt", o, func(op *operation) planner { return op.adopt })
}

func (op *operation) adopt(ctx context.Context, s inspection) (change, error) {
	if s.Named() {
		return change{reason: nothing}, nil
	}
	if err := s.refuseFromSource(); err != nil {
		return change{}, err
	}
	if err := s.refuseHalf(); err != nil {
		return change{}, err
	}
	kept, err := op.lastPositions(ctx, s)
	if err != nil {
		return change{}, err
	}
	next := &state.Positions{}
	for i, in := range s.Inputs {
		if in.Committed < 0 {
			return change{}, refuse("%s[%d] has no committed offset that the state could belong to: where offsets have expired, "+
				"`onceward adopt --from-rounds %s%s`; otherwise commit one first, or `onceward rebuild from-input %s`", in.Topic, in.Partition,
				s.parkedFlag(), s.id, s.id)
		}
		if err := s.inLog(i, in.Committed); err != nil {
			return change{}, err
		}
		next.Inputs = append(next.Inputs, state.Input{
			Topic: in.Topic, Partition: in.Partition, Offset: in.Committed, StreamTime: streamTime(kept, in.Topic),
		})
	}
	for _, c := range s.Changelogs {
		streamTime, err := op.streamTimeIn(ctx, s, c, kept)
		if err != nil {
			return change{}, err
		}
		next.Changelogs = append(next.Changelogs, positionIn(c, c.HighWatermark, streamTime))
	}
	next.Round = declared(next.Changelogs)
	next.State = next.Round
	return change{reason: s.reason(), next: next, keepsState: true, keeps: kept, adopts: s.HasState}, nil
}

// AdoptFromRounds restores offsets that are gone, because they expire when a group is empty for
// long (offsets.retention.minutes). It takes offsets and positions from the record that the last
// clean stop of each task has written to the rounds topic. It is refused for a task that still has
// offsets and does not open. It is also refused if the changelogs hold more than the positions of
// that record: then the task continued after the stop. Parked records are as with Adopt.
func (a *Application) AdoptFromRounds(ctx context.Context, o Options) (Report, error) {
	return a.act(ctx, "adopt --from-rounds", o, func(op *operation) planner { return op.adoptFromRounds })
}

func (op *operation) adoptFromRounds(ctx context.Context, s inspection) (change, error) {
	committed := 0
	for _, in := range s.Inputs {
		if in.Committed >= 0 {
			committed++
		}
	}
	switch {
	case committed > 0 && s.Named():
		return change{reason: nothing}, nil
	case s.Rebuilding:
		return change{}, s.refuseHalf()
	case committed > 0:
		if err := s.refuseFromSource(); err != nil {
			return change{}, err
		}
		return change{}, refuse("it has committed offsets: decide on those, with %s", s.recoveryActions())
	}
	kept, err := op.keptPositions(ctx, s.target)
	if err != nil {
		return change{}, err
	}
	if kept == nil {
		if s.Named() {
			return change{reason: "nothing was ever committed"}, nil
		}
		return change{}, refuse("%s keeps no positions of it, because its last stop was not a clean one: "+
			"%s, or `onceward rebuild from-input %s`", op.restorer.RoundsTopic, s.adoptLost(false), s.id)
	}
	if err := op.describesState(ctx, s, kept); err != nil {
		return change{}, err
	}
	next := &state.Positions{Round: kept.Round, State: kept.State, Changelogs: positionsOf(s, kept)}
	for i, in := range s.Inputs {
		named, known := kept.Input(in.Topic)
		if !known {
			named = task.CommittedInput{Offset: in.Start, StreamTime: state.NoTime} // a new input
		}
		if err := s.inLog(i, named.Offset); err != nil {
			return change{}, err
		}
		next.Inputs = append(next.Inputs, state.Input{
			Topic: in.Topic, Partition: in.Partition, Offset: named.Offset, StreamTime: named.StreamTime,
		})
	}
	return change{reason: "its offsets are gone, and a clean stop has kept them", next: next, keepsState: true, keeps: kept}, nil
}

// refuseHalf refuses a state that a rebuild from input has begun to empty: it belongs to no
// offsets.
func (s inspection) refuseHalf() error {
	if !s.Rebuilding {
		return nil
	}
	return refuse("a rebuild from input was interrupted, and its state is neither the old one nor empty: do it again, with "+
		"`onceward rebuild from-input %s`", s.id)
}

// refuseFromSource refuses to move an offset of a task with a table that is restored from its
// topic. Such a table is the content of the topic up to the offset. It would change with the
// offset, and the records that it has taken would be unknown.
func (s inspection) refuseFromSource() error {
	for _, c := range s.Changelogs {
		if c.FromSource != nil {
			way := ""
			if s.Commit != nil {
				way = "set an offset that was moved back to where it was, or "
			}
			return refuse("store %s is restored from the topic %s (RestoreFromTopic) and is what that holds up to the committed offset: "+
				"%s`onceward rebuild from-input %s`", c.Store, c.Topic, way, s.id)
		}
	}
	return nil
}

// lastPositions returns the newest positions that are known of a task: those of its commit, else
// those that a clean stop has kept; nil if there are none.
func (op *operation) lastPositions(ctx context.Context, s inspection) (*task.CommitMetadata, error) {
	if s.Commit != nil {
		return s.Commit, nil
	}
	return op.keptPositions(ctx, s.target)
}

// describesState refuses positions that are not those of the state that the changelogs hold: they
// name other topics, or the logs go on behind them, or end before them.
func (op *operation) describesState(ctx context.Context, s inspection, b *task.CommitMetadata) error {
	var named []state.Changelog
	for _, c := range s.Changelogs {
		at, known := b.Target(c.Store)
		if known {
			named = append(named, state.Changelog{Store: c.Store, TopicID: c.TopicID})
		}
		if at > c.HighWatermark {
			return refuse("the changelog %s[%d] ends at %d, and the last known commit names %d, so the cluster lost records: "+
				"`onceward rebuild from-input %s`, or to accept the loss, %s", c.Topic, s.id.Partition, c.HighWatermark, at, s.id,
				s.adoptLost(c.Parks))
		}
		more, err := op.restorer.Beyond(ctx, c, s.id, at)
		if err != nil {
			return err
		}
		if more {
			return refuse("the changelog %s[%d] holds committed records behind offset %d, where the last known commit ends. So the offsets "+
				"that belong to the state are unknown: %s if you know that it belongs to the committed ones, or "+
				"`onceward rebuild from-input %s`", c.Topic, s.id.Partition, at, s.adoptLost(false), s.id)
		}
	}
	if len(named) == len(b.Changelogs) && task.TopicsHash(named) != b.Topics {
		return refuse("a changelog topic is not the one that the last known commit names, it was deleted and created again: "+
			"`onceward rebuild from-input %s`, or to accept the loss, %s", s.id, s.adoptLost(len(b.WhereParked()) > 0))
	}
	return nil
}

// positionsOf returns where the commit metadata are in the changelogs. The state behind these
// positions is the same: describesState has checked that.
func positionsOf(s inspection, b *task.CommitMetadata) []state.Changelog {
	var out []state.Changelog
	for _, c := range s.Changelogs {
		at, _ := b.Changelog(c.Store)
		out = append(out, positionIn(c, at.Applied, at.StreamTime))
	}
	return out
}

// positionIn returns a position with the stream time of the store there, which is as much a part of
// the state: with an earlier one, what has expired would be there again.
func positionIn(c restore.Changelog, at, streamTime int64) state.Changelog {
	return state.Changelog{Store: c.Store, TopicID: c.TopicID, Applied: at, Scanned: at, StreamTime: streamTime}
}

// inLog refuses an offset of the i-th input from which no record could be read.
func (s inspection) inLog(i int, offset int64) error {
	in, b := s.Inputs[i], s.bounds[i]
	if offset < b.start || offset > b.end {
		return refuse("the offset %d of %s[%d] is not in the log, which holds %d to %d: records are gone, or the topic is another one",
			offset, in.Topic, in.Partition, b.start, b.end)
	}
	return nil
}

// reason says why the task does not open.
func (s inspection) reason() string {
	if s.Stop != nil {
		return s.Stop.Reason
	}
	for i, beyond := range s.Beyond {
		if beyond {
			c := s.Changelogs[i]
			at, _ := s.Commit.Target(c.Store)
			return fmt.Sprintf("the changelog %s[%d] holds committed records behind offset %d, which the last commit names", c.Topic,
				s.id.Partition, at)
		}
	}
	return nothing
}
