package txn

import (
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/task"
)

// purgeInterval is how often repartition topics are purged, and what lies between a commit and the deletion of what it has moved past.
const purgeInterval = 30 * time.Second

// purgeIntervalFailpoints is purgeInterval of an application with failpoints, so that they are reached.
const purgeIntervalFailpoints = 200 * time.Millisecond

// purge deletes what the tasks of this process have read of repartition topics: nobody else reads them, and they keep everything.
//
// Only offsets of applied rounds count, and of those only what was applied at the previous turn by a task that has been ours ever since:
// the lag leaves room for a look at what was processed last. It is a request to a broker outside of any transaction, which is safe
// because a committed offset never goes back, unless an operator moves it; then the task stops with an offset out of range instead of
// leaving records out.
func (s *session) purge() {
	tick := time.NewTicker(s.in.app.cfg.purgeInterval)
	defer tick.Stop()
	seen := map[partitionKey]purgeable{}
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
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
				if before[key.topic] == nil {
					before[key.topic] = map[int32]int64{}
				}
				before[key.topic][key.partition], p.done = old.offset, old.offset
			}
			now[key] = p
		}
		seen = now
		if len(before) == 0 {
			continue
		}
		err := s.in.app.cfg.failpoints.Hit(s.ctx, failpoint.PurgeBefore)
		if err == nil {
			err = s.in.cluster.DeleteBefore(s.ctx, before)
		}
		if err != nil && s.ctx.Err() == nil {
			s.in.app.log.Warn("a repartition topic could not be purged and keeps growing", "error", err)
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
func (s *session) purgeable() map[partitionKey]purgeable {
	committed := map[partitionKey]int64{}
	for _, w := range s.workers {
		for id, status := range w.Tasks() {
			if _, owned := s.ownership.Epoch(id); !owned {
				continue
			}
			for _, in := range status.Inputs {
				if s.repartition(id, in.Topic) {
					committed[partitionKey{in.Topic, in.Partition}] = in.Offset
				}
			}
		}
	}
	out := map[partitionKey]purgeable{}
	s.tasks.RLock()
	defer s.tasks.RUnlock()
	for key, offset := range committed {
		if r := s.tasks.routes[key]; r != nil {
			out[key] = purgeable{task: r.task, offset: offset}
		}
	}
	return out
}

func (s *session) repartition(id topology.TaskID, topic string) bool {
	for _, src := range s.subs[id.Subtopology].Sources {
		if src.Topic == topic {
			return src.Repartition
		}
	}
	return false
}
