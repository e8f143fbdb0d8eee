package session

import (
	"slices"
	"time"

	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/dispatch"
)

// JoinData is part of broker.Assignment.
func (c *callbacks) JoinData() assign.Join {
	s := (*Session)(c)
	return s.cfg.Self.Join(tasksNow(s.Tasks()))
}

// Planned is part of broker.Assignment.
func (c *callbacks) Planned(plan assign.Plan, leader bool) {
	s := (*Session)(c)
	s.cfg.Self.Planned(time.Now(), plan, leader, s.stoppedTasks())
	s.cfg.Planned(plan)
	if member, _ := s.member(); member != "" {
		s.cfg.Joined(member) // before the assignment: a process may die in the rebalance
	}
	s.promised.Store(slices.ContainsFunc(plan.Owed, func(m assign.Move) bool { return m.To == s.cfg.Directory.Instance() }))
	if len(plan.Owed) > 0 {
		s.cfg.Logger.Info("tasks are moving", "owed", len(plan.Owed), "plan", plan.ID, "leader", leader)
	}
	select {
	case s.planned <- struct{}{}:
	default:
	}
}

// due returns when a rebalance is to be forced, and why, as the tasks are now.
func (s *Session) due() (time.Time, assign.Reason, bool) { return s.cfg.Self.Due(s.stoppedTasks()) }

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
		for _, in := range t.Worker.Inputs {
			out[i].Offsets = append(out[i].Offsets, in.Offset)
		}
	}
	return out
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
