package session

import (
	"slices"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/dispatch"
)

// JoinData is part of broker.Assignment.
func (c *callbacks) JoinData() assign.Join {
	s := (*Session)(c)
	tasks := tasksNow(s.Tasks())
	var warm []graph.TaskID
	for _, c := range s.copies.Status() {
		if c.Warm {
			warm = append(warm, c.Task)
		}
		if len(c.At.Inputs) > 0 {
			tasks = append(tasks, assign.TaskNow{Task: c.Task, Offsets: offsetsOf(c.At.Inputs)})
		}
	}
	return s.cfg.Self.Join(tasks, warm)
}

// Planned is part of broker.Assignment.
func (c *callbacks) Planned(plan assign.Plan, leader bool) {
	s := (*Session)(c)
	s.cfg.Self.Planned(time.Now(), plan, leader, s.stoppedTasks())
	s.cfg.Planned(plan)
	if s.copies.Plan(s.cfg.Self.Copies(plan)) {
		s.divide()
	}
	if member, _ := s.member(); member != "" {
		s.cfg.Joined(member) // before the assignment: a process may die in the rebalance
	}
	s.promised.Store(slices.ContainsFunc(plan.Pending, func(m assign.Move) bool { return m.To == s.cfg.Directory.Instance() }))
	if len(plan.Pending) > 0 {
		s.cfg.Logger.Info("tasks are moving", "pending", len(plan.Pending), "plan", plan.ID, "leader", leader)
	}
	s.replan()
}

// replan lets the policy decide again whether a rebalance is to be forced. It does not block.
func (s *Session) replan() {
	select {
	case s.planned <- struct{}{}:
	default:
	}
}

// due returns when a rebalance is to be forced, and why, as the tasks are now.
func (s *Session) due() (time.Time, assign.Reason, bool) {
	return s.cfg.Self.Due(s.stoppedTasks(), s.copies.Warm())
}

// stoppedTasks returns how many tasks do not work any more.
func (s *Session) stoppedTasks() int32 {
	n, _, _ := s.tasks.Stopped()
	return int32(n)
}

// tasksNow tells what tasks are doing, as the group has to know it.
func tasksNow(tasks []dispatch.Status) []assign.TaskNow {
	out := make([]assign.TaskNow, len(tasks))
	for i, t := range tasks {
		out[i] = assign.TaskNow{Task: t.ID, Stopped: t.Stopped}
		if t.Worker == nil {
			continue
		}
		out[i].Offsets = offsetsOf(t.Worker.Inputs)
	}
	return out
}

func offsetsOf(inputs []state.Input) (offsets []int64) {
	for _, in := range inputs {
		offsets = append(offsets, in.Offset)
	}
	return offsets
}

// forceRebalances forces a rebalance whenever the policy says so, until the session fetches no
// more.
func (s *Session) forceRebalances() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		at, why, ok := s.due()
		now, g := time.Now(), s.client()
		ok = ok && g != nil
		if ok && !now.Before(at) {
			s.cfg.Logger.Info("a rebalance is forced", "why", string(why))
			s.cfg.Self.Forced(now, why)
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
		case <-s.cfg.Self.Removed():
		case <-timer.C:
		}
	}
}
