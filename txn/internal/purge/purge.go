package purge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/worker"
)

// Interval is how often repartition topics are purged, and what lies between a commit and the
// deletion of what it has moved past.
const Interval = 30 * time.Second

// IntervalFailpoints is Interval of an application with failpoints, so that they are reached.
const IntervalFailpoints = 200 * time.Millisecond

// changelogPurgeTurns is every how many turns changelogs are purged. Brokers look for segments to
// free every five minutes.
const changelogPurgeTurns = 10

// Config is what a Purger needs of its session.
type Config struct {
	Cluster       *broker.Cluster
	Subtopologies map[string]graph.Subtopology
	Ownership     *assign.Ownership
	Tasks         *dispatch.Dispatcher
	Workers       []*worker.Worker
	// Interval is [Interval], but for tests.
	Interval   time.Duration
	Logger     *slog.Logger
	Failpoints failpoint.Set
}

// Purger purges topics for the tasks of one session.
type Purger struct{ cfg Config }

// New returns a purger that has not begun.
func New(cfg Config) *Purger { return &Purger{cfg} }

// Run purges until ctx ends.
func (p *Purger) Run(ctx context.Context) {
	tick := time.NewTicker(p.cfg.Interval)
	defer tick.Stop()
	seen, deleted := map[dispatch.Input]purgeable{}, map[dispatch.Input]int64{}
	for turn := 1; ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if turn%changelogPurgeTurns == 0 {
			if err := p.purgeChangelogs(ctx, deleted); err != nil && ctx.Err() == nil {
				p.cfg.Logger.Warn("cannot delete the expired records of changelogs, which keep growing", "error", err)
			}
		}
		now := p.purgeable()
		before := due(seen, now)
		seen = now
		if len(before) == 0 {
			continue
		}
		err := p.cfg.Failpoints.Hit(ctx, failpoint.PurgeBefore)
		if err == nil {
			err = p.cfg.Cluster.DeleteBefore(ctx, before)
		}
		if err != nil && ctx.Err() == nil {
			p.cfg.Logger.Warn("a repartition topic could not be purged and keeps growing", "error", err)
		}
	}
}

// purgeable is how far a task has read a repartition partition.
type purgeable struct {
	task   *task.Task
	offset int64
	done   int64
}

// due returns up to where repartition partitions are deleted: what tasks had read at the turn
// before, and still own. It notes that in now.
func due(seen, now map[dispatch.Input]purgeable) (before map[string]map[int32]int64) {
	before = map[string]map[int32]int64{}
	for key, read := range now {
		old, ok := seen[key]
		if !ok || old.task != read.task {
			continue
		}
		read.done = old.done
		if old.offset > read.done {
			setIn(before, key, old.offset)
			read.done = old.offset
		}
		now[key] = read
	}
	return before
}

// purgeable returns the committed positions in repartition topics of the tasks that are owned.
func (p *Purger) purgeable() map[dispatch.Input]purgeable {
	committed := map[dispatch.Input]int64{}
	for _, w := range p.cfg.Workers {
		for id, status := range w.Tasks() {
			if _, owned := p.cfg.Ownership.Epoch(id); !owned {
				continue
			}
			for _, in := range status.Inputs {
				if p.repartition(id, in.Topic) {
					committed[dispatch.Input{Topic: in.Topic, Partition: in.Partition}] = in.Offset
				}
			}
		}
	}
	out := map[dispatch.Input]purgeable{}
	for key, offset := range committed {
		if reader, _ := p.cfg.Tasks.Route(key.Topic, key.Partition); reader != nil {
			out[key] = purgeable{task: reader, offset: offset}
		}
	}
	return out
}

func (p *Purger) repartition(id graph.TaskID, topic string) bool {
	for _, src := range p.cfg.Subtopologies[id.Subtopology].Sources {
		if src.Topic == topic {
			return src.Repartition
		}
	}
	return false
}

// expiring is a changelog partition of a store whose rows expire.
type expiring struct {
	// applied is the end of its committed records, and no record that is older than oldest is
	// needed.
	applied, oldest int64
}

// expiring returns the changelog partitions of the stores whose rows expire, of the owned tasks, as
// of their last applied round.
func (p *Purger) expiring() (map[dispatch.Input]expiring, error) {
	out := map[dispatch.Input]expiring{}
	for id, db := range p.cfg.Tasks.Databases() {
		if _, owned := p.cfg.Ownership.Epoch(id); !owned {
			continue
		}
		positions, err := committedPositions(db)
		if errors.Is(err, state.ErrClosed) {
			continue // given up meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("reading the positions of task %s: %w", id, err)
		}
		for _, st := range p.cfg.Subtopologies[id.Subtopology].Restored() {
			at, ok := positions.Changelog(st.Name)
			if oldest := st.Layout.OldestInChangelog(at.StreamTime); ok && st.FromSource == nil && oldest > 0 {
				out[dispatch.Input{Topic: st.ChangelogTopic, Partition: id.Partition}] = expiring{at.Applied, oldest}
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

// purgeChangelogs deletes the beginning of changelogs whose records have all expired by the stream
// time of their stores. Brokers cannot do that: they go by the clock, which is ahead of the stream
// time by any amount. deleted is up to where that was done before.
//
// A broker finds the first record that has not expired by its timestamp. Markers of transactions
// have the time of the clock: where the stream time is behind it, records stay until the stream
// time has passed the time at which they were written.
//
// Only the stream time of applied rounds counts, and it never goes back; a task that has moved away
// meanwhile needs no more than that.
func (p *Purger) purgeChangelogs(ctx context.Context, deleted map[dispatch.Input]int64) error {
	found, err := p.expiring()
	if err != nil || len(found) == 0 {
		return err
	}
	times := map[string]map[int32]int64{}
	for key, x := range found {
		setIn(times, key, x.oldest)
	}
	firsts, err := p.cfg.Cluster.FirstSince(ctx, times)
	if err != nil {
		return err
	}
	before := expired(found, firsts, deleted)
	if len(before) == 0 {
		return nil
	}
	if err := p.cfg.Failpoints.Hit(ctx, failpoint.PurgeBefore); err != nil {
		return err
	}
	if err := p.cfg.Cluster.DeleteBefore(ctx, before); err != nil {
		return err
	}
	for topic, partitions := range before {
		for partition, at := range partitions {
			deleted[dispatch.Input{Topic: topic, Partition: partition}] = at
		}
	}
	return nil
}

// expired returns up to where changelogs are deleted: firsts are the first records that have not
// expired, -1 where all have. Nothing behind the last applied round is deleted, and nothing twice.
func expired(
	found map[dispatch.Input]expiring, firsts map[string]map[int32]int64, deleted map[dispatch.Input]int64,
) (before map[string]map[int32]int64) {
	before = map[string]map[int32]int64{}
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
	return before
}

func setIn(m map[string]map[int32]int64, key dispatch.Input, value int64) {
	if m[key.Topic] == nil {
		m[key.Topic] = map[int32]int64{}
	}
	m[key.Topic][key.Partition] = value
}
