package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/task"
)

// PurgeInterval is how often repartition topics are purged, and what lies between a commit and the deletion of what it has moved past.
const PurgeInterval = 30 * time.Second

// PurgeIntervalFailpoints is PurgeInterval of an application with failpoints, so that they are reached.
const PurgeIntervalFailpoints = 200 * time.Millisecond

// changelogPurgeTurns is every how many turns changelogs are purged. Brokers look for segments to free every five minutes.
const changelogPurgeTurns = 10

// purge deletes what nobody reads any more, of repartition topics and of changelogs.
//
// Of repartition topics that is what the tasks of this process have read: nobody else reads them, and they keep everything. Only offsets of applied rounds count, and of those only what was applied at the previous turn by a task that has been ours ever since:
// the lag leaves room for a look at what was processed last. It is a request to a broker outside of any transaction, which is safe
// because a committed offset never goes back, unless an operator moves it; then the task stops with an offset out of range instead of
// leaving records out.
//
// Of changelogs of stores that forget it is what has expired by the stream time of the store; see purgeChangelogs.
func (s *Session) purge() {
	tick := time.NewTicker(s.cfg.PurgeInterval)
	defer tick.Stop()
	seen, deleted := map[dispatch.Input]purgeable{}, map[dispatch.Input]int64{}
	for turn := 1; ; turn++ {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if turn%changelogPurgeTurns == 0 {
			if err := s.purgeChangelogs(deleted); err != nil && s.ctx.Err() == nil {
				s.cfg.Logger.Warn("what has expired of changelogs could not be deleted, and they keep growing", "error", err)
			}
		}
		now := s.purgeable()
		before := map[string]map[int32]int64{}
		for key, p := range now {
			old, ok := seen[key]
			if !ok || old.task != p.task {
				continue
			}
			p.done = old.done
			if old.offset > p.done {
				setIn(before, key, old.offset)
				p.done = old.offset
			}
			now[key] = p
		}
		seen = now
		if len(before) == 0 {
			continue
		}
		err := s.cfg.Failpoints.Hit(s.ctx, failpoint.PurgeBefore)
		if err == nil {
			err = s.cfg.Cluster.DeleteBefore(s.ctx, before)
		}
		if err != nil && s.ctx.Err() == nil {
			s.cfg.Logger.Warn("a repartition topic could not be purged and keeps growing", "error", err)
		}
	}
}

// purgeable is how far a task has read a repartition partition.
type purgeable struct {
	task   *task.Task
	offset int64
	done   int64
}

// purgeable returns the committed positions in repartition topics of the tasks that are owned.
func (s *Session) purgeable() map[dispatch.Input]purgeable {
	committed := map[dispatch.Input]int64{}
	for _, w := range s.workers {
		for id, status := range w.Tasks() {
			if _, owned := s.ownership.Epoch(id); !owned {
				continue
			}
			for _, in := range status.Inputs {
				if s.repartition(id, in.Topic) {
					committed[dispatch.Input{in.Topic, in.Partition}] = in.Offset
				}
			}
		}
	}
	out := map[dispatch.Input]purgeable{}
	for key, offset := range committed {
		if reader, _ := s.tasks.Route(key.Topic, key.Partition); reader != nil {
			out[key] = purgeable{task: reader, offset: offset}
		}
	}
	return out
}

func (s *Session) repartition(id topology.TaskID, topic string) bool {
	for _, src := range s.subs[id.Subtopology].Sources {
		if src.Topic == topic {
			return src.Repartition
		}
	}
	return false
}

// expiring is a changelog partition of a store that forgets.
type expiring struct {
	// applied is up to where its committed records go, and no record that is older than horizon is needed.
	applied, horizon int64
}

// expiring returns the changelog partitions of the stores that forget, of the tasks that are owned, as of their last applied round.
func (s *Session) expiring() (map[dispatch.Input]expiring, error) {
	out := map[dispatch.Input]expiring{}
	for id, db := range s.tasks.Databases() {
		if _, owned := s.ownership.Epoch(id); !owned {
			continue
		}
		positions, err := committedPositions(db)
		if errors.Is(err, state.ErrClosed) {
			continue // given up meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("reading the positions of task %s: %w", id, err)
		}
		for _, st := range s.subs[id.Subtopology].Stores {
			at, ok := positions.Changelog(st.Name)
			if horizon := st.Layout.ChangelogHorizon(at.StreamTime); ok && st.FromSource == nil && horizon > 0 {
				out[dispatch.Input{st.ChangelogTopic, id.Partition}] = expiring{at.Applied, horizon}
			}
		}
	}
	return out, nil
}

func committedPositions(db state.Database) (state.Positions, error) {
	view, err := db.View()
	if err != nil {
		return state.Positions{}, err
	}
	positions := view.Positions().Clone()
	return positions, view.Close()
}

// purgeChangelogs deletes the beginning of changelogs whose records have all expired by the stream time of their stores. Brokers cannot do
// that: they go by the clock, which is ahead of the stream time by any amount. deleted is up to where that was done before.
//
// A broker finds the first record that has not expired by its timestamp. Markers of transactions have the time of the clock: where the stream
// time is behind it, records stay until the stream time has passed the time at which they were written.
//
// Only the stream time of applied rounds counts, and it never goes back; a task that has moved away meanwhile needs no more than that.
func (s *Session) purgeChangelogs(deleted map[dispatch.Input]int64) error {
	found, err := s.expiring()
	if err != nil || len(found) == 0 {
		return err
	}
	times := map[string]map[int32]int64{}
	for key, x := range found {
		setIn(times, key, x.horizon)
	}
	firsts, err := s.cfg.Cluster.FirstSince(s.ctx, times)
	if err != nil {
		return err
	}
	before := map[string]map[int32]int64{}
	for key, x := range found {
		first, known := firsts[key.Topic][key.Partition]
		if !known {
			continue
		}
		if first < 0 || first > x.applied {
			first = x.applied
		}
		if first > deleted[key] {
			setIn(before, key, first)
		}
	}
	if len(before) == 0 {
		return nil
	}
	if err := s.cfg.Failpoints.Hit(s.ctx, failpoint.PurgeBefore); err != nil {
		return err
	}
	if err := s.cfg.Cluster.DeleteBefore(s.ctx, before); err != nil {
		return err
	}
	for topic, partitions := range before {
		for p, at := range partitions {
			deleted[dispatch.Input{topic, p}] = at
		}
	}
	return nil
}

func setIn(m map[string]map[int32]int64, key dispatch.Input, value int64) {
	if m[key.Topic] == nil {
		m[key.Topic] = map[int32]int64{}
	}
	m[key.Topic][key.Partition] = value
}
