package session

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
)

// TestStoppedTasksAreTold: what the plan did not count because it was stopped, and is not stopped
// in a new session, forces a rebalance; what still is or stops again does not.
func TestStoppedTasksAreTold(t *testing.T) {
	own := assign.Join{}.Entry("me")
	s := &Session{
		cfg:   Config{Self: assign.NewSelf(assign.Process{Instance: own.Member, RevokeMax: RevokeWait}), Planned: func(assign.Plan) {}},
		tasks: noTasks(), copies: noCopies(), planned: make(chan struct{}, 1),
	}
	id := graph.TaskID{Subtopology: "in"}
	e := s.tasks.Enter(id)
	s.tasks.Stop(id, e, errors.New("poison"), false)
	s.tasks.Enter(graph.TaskID{Subtopology: "in", Partition: 1})
	plan := assign.Plan{ID: 1, Entries: []assign.Entry{own}}
	plan.Entries[0].Stopped = 1
	(*callbacks)(s).Planned(plan, false)
	if _, why, ok := s.due(); ok {
		t.Errorf("a rebalance is due because of %q while the task is stopped", why)
	}
	s.cfg.Self.Left()
	s.tasks.GoOn(e)
	(*callbacks)(s).Planned(plan, false) // the old assignment again
	if _, why, ok := s.due(); !ok || why != assign.Working {
		t.Errorf("due is %t because of %q, want a rebalance because the task works again", ok, why)
	}
	s.tasks.Stop(id, e, errors.New("poison"), false)
	if _, why, ok := s.due(); ok {
		t.Errorf("a rebalance is due because of %q although the task stopped again", why)
	}
}
