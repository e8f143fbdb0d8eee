package txn

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/assign"
)

// membership is what the process tells the group of itself, and what it knows of the group's plan. It outlives sessions: what the disk
// holds does, and a new session must not begin to force rebalances anew. Safe for concurrent use.
type membership struct {
	// constant is the part of the join data that never changes in a life.
	constant assign.Join
	stateful map[string]bool

	mu        sync.Mutex
	positions map[topology.TaskID]int64 // of the tasks with state on disk; 0 where it is not known
	forcing   *assign.Forcing

	// removed has room for one word that a member was removed.
	removed chan struct{}
}

// newMembership reads which tasks have state on disk. It opens no database: how old the state of an earlier life is stays unknown.
func (in *instance) newMembership() (*membership, error) {
	m := &membership{
		constant:  assign.Join{Fingerprint: in.fingerprint},
		stateful:  map[string]bool{},
		positions: map[topology.TaskID]int64{},
		removed:   make(chan struct{}, 1),
	}
	for _, sub := range in.app.topology.Subtopologies() {
		as := assign.Subtopology{Name: sub.Name}
		for _, src := range sub.Sources {
			as.Sources = append(as.Sources, src.Topic)
		}
		for _, st := range sub.Stores {
			m.stateful[sub.Name] = true
			if n := (*in.layout.Load())[st.Topic()].Partitions; as.PartitionsMax == 0 || n < as.PartitionsMax {
				as.PartitionsMax = n
			}
		}
		m.constant.Subtopologies = append(m.constant.Subtopologies, as)
	}
	places, err := in.dir.Tasks()
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		m.positions[topology.TaskID{Subtopology: p.Subtopology, Partition: p.Partition}] = 0
	}
	m.forcing = assign.NewForcing(m.constant.Entry(in.dir.Instance()), revokeWait)
	return m, nil
}

// join returns the join data, given what the tasks are doing now.
func (m *membership) join(tasks []TaskStatus) assign.Join {
	m.remember(tasks)
	out := m.constant
	for _, t := range tasks {
		if t.State == TaskStopped {
			out.Stopped = append(out.Stopped, assign.StoppedTask{Task: t.ID, Reason: t.Reason})
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, position := range m.positions {
		out.Local = append(out.Local, assign.LocalTask{Task: id, Position: position})
	}
	slices.SortFunc(out.Local, func(a, b assign.LocalTask) int {
		if c := strings.Compare(a.Task.Subtopology, b.Task.Subtopology); c != 0 {
			return c
		}
		return int(a.Task.Partition) - int(b.Task.Partition)
	})
	return out
}

// remember keeps how far the state of tasks is: it stays on disk when they are given up. The sum of a task's offsets is the same number
// for the same state in every process.
func (m *membership) remember(tasks []TaskStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range tasks {
		if !m.stateful[t.ID.Subtopology] || len(t.Inputs) == 0 {
			continue
		}
		position := int64(1) // a known position is more than an unknown one
		for _, in := range t.Inputs {
			position += in.Offset
		}
		m.positions[t.ID] = position
	}
}

// due returns when a rebalance is to be forced, and why, while so many tasks are stopped.
func (m *membership) due(stopped int32) (time.Time, assign.Reason, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forcing.Stopped(stopped)
	return m.forcing.Due()
}

// due is membership.due with what the tasks of the session are doing now.
func (s *session) due() (time.Time, assign.Reason, bool) {
	return s.in.membership.due(s.tasks.stopped())
}

// stopped returns how many tasks do not work any more.
func (t *taskTable) stopped() int32 {
	t.RLock()
	defer t.RUnlock()
	n := int32(0)
	for _, e := range t.entries {
		if e.stopped != nil {
			n++
		}
	}
	return n
}

// gone says that an instance is gone and that its member was removed from the group.
func (m *membership) gone(instance string) {
	m.mu.Lock()
	m.forcing.Gone(instance)
	m.mu.Unlock()
	select {
	case m.removed <- struct{}{}:
	default:
	}
}

// left says that the session is over.
func (m *membership) left() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forcing.Left()
}

// JoinData is part of broker.Assignment.
func (c *callbacks) JoinData() assign.Join {
	s := (*session)(c)
	return s.in.membership.join(s.tasks.status(s.workers))
}

// Planned is part of broker.Assignment.
func (c *callbacks) Planned(plan assign.Plan, leader bool) {
	s := (*session)(c)
	stopped := s.tasks.stopped()
	s.in.membership.mu.Lock()
	s.in.membership.forcing.Stopped(stopped)
	s.in.membership.forcing.Planned(time.Now(), plan, leader)
	s.in.membership.mu.Unlock()
	s.in.watch.planned(plan)
	if member, _ := s.member(); member != "" {
		s.in.watch.joined(member) // before the assignment: a process may die in the rebalance
	}
	s.promised.Store(slices.ContainsFunc(plan.Owed, func(m assign.Move) bool { return m.To == s.in.dir.Instance() }))
	if len(plan.Owed) > 0 {
		s.in.app.log.Info("tasks are moving", "owed", len(plan.Owed), "plan", plan.ID, "leader", leader)
	}
	select {
	case s.planned <- struct{}{}:
	default:
	}
}

// forceRebalances forces a rebalance whenever the policy says so, until the session fetches no more.
func (s *session) forceRebalances() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		at, why, ok := s.due()
		now, g := time.Now(), s.client()
		ok = ok && g != nil
		if ok && !now.Before(at) {
			s.in.app.log.Info("a rebalance is forced", "why", string(why))
			s.in.membership.mu.Lock()
			s.in.membership.forcing.Forced(now, why)
			s.in.membership.mu.Unlock()
			g.ForceRebalance()
			continue
		}
		wait := time.Hour
		if ok {
			wait = at.Sub(now)
		}
		timer.Reset(wait)
		select {
		case <-s.poll.Done():
			return
		case <-s.planned:
		case <-s.in.membership.removed:
		case <-timer.C:
		}
	}
}
