package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/worker"
)

// callbacks are the session as the group sees it.
type callbacks Session

func (c *callbacks) Assigned(partitions map[string][]int32) {
	s := (*Session)(c)
	_ = s.cfg.Failpoints.Hit(s.ctx, failpoint.Assigned) // a callback cannot fail
	s.tasks.Assigned(partitions)
	s.cfg.Metrics.Assigned(partitions)
	complete := s.ownership.Add(partitions)
	s.divide()
	for _, id := range complete {
		s.opener.Start(id, s.tasks.Enter(id))
	}
}

func (c *callbacks) Revoked(ctx context.Context, partitions map[string][]int32) {
	ctx, cancel := context.WithTimeout(ctx, RevokeWait)
	defer cancel()
	_ = c.cfg.Failpoints.Hit(ctx, failpoint.RevokedBefore) // a callback cannot fail
	c.cfg.Metrics.Revoked(partitions)
	(*Session)(c).giveUp(ctx, partitions)
	_ = c.cfg.Failpoints.Hit(ctx, failpoint.RevokedAfter)
	if c.poll.Err() == nil { // else the session ends, and leaves the group or remains a member
		c.cfg.planOver()
	}
}

// planOver lets the other members join again at once. They would hear of it with their next
// heartbeats, and the tasks would wait for that.
func (c *Config) planOver() {
	if c.Over != nil {
		c.Over()
	}
}

func (c *callbacks) Lost(partitions map[string][]int32) {
	s := (*Session)(c)
	ctx, cancel := context.WithTimeout(s.ctx, RevokeWait)
	defer cancel()
	s.cfg.Metrics.Lost(partitions)
	_ = s.cfg.Failpoints.Hit(ctx, failpoint.LostBefore) // a callback cannot fail
	s.giveUp(ctx, partitions)
}

// giveUp raises the epochs first, so that nothing of these tasks can be committed any more, and
// then waits for what is in flight. It does not wait until their databases are closed: who gets the
// tasks need not.
func (s *Session) giveUp(ctx context.Context, partitions map[string][]int32) {
	ids := s.ownership.Remove(partitions)
	s.cfg.Self.Remember(tasksNow(s.Tasks()))
	for _, id := range ids {
		if s.ownership.Partial(id) {
			// The plan moves a task's inputs together, so this is a safety net. Records that were
			// fetched of the remaining inputs are lost with the task, and the client would not
			// fetch them again: only a new membership does.
			defer s.cancel(fmt.Errorf("%w: task %s keeps some of its inputs", worker.ErrReopen, id))
		}
	}
	var wg sync.WaitGroup
	for _, id := range ids {
		s.opener.Cancel(id)
		w, t := s.tasks.Remove(id)
		if w == nil {
			continue
		}
		release := s.opener.Hold(id)
		wg.Go(func() {
			closing, err := w.Release(ctx, t)
			if err != nil && !errors.Is(err, worker.ErrEnded) {
				s.cfg.Logger.Warn("a revoked task is not released yet", "task", id.String(), "error", err)
			}
			s.closers.Go(func() {
				defer release()
				closing.Wait()
			})
		})
	}
	wg.Wait()
	s.tasks.Revoked(partitions)
	s.divide()
}

// divide divides what the process may hold in memory among what it is assigned now; what is new is
// not opened or fetched before.
func (s *Session) divide() {
	databases := 0
	for _, id := range s.ownership.Owned() {
		sub := s.subs[id.Subtopology]
		if len(sub.Stores) > 0 {
			databases++
		}
		if len(sub.InMemory()) > 0 { // a second one
			databases++
		}
	}
	for _, id := range s.copies.Wanted() {
		databases++
		if len(s.subs[id.Subtopology].InMemory()) > 0 {
			databases++
		}
	}
	s.cfg.Shared.Expect(databases + len(s.cfg.Topology.GlobalTables()))
	s.tasks.Divide(s.ownership.Partitions())
}
