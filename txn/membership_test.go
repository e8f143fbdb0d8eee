package txn

import (
	"errors"
	"reflect"
	"testing"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/peers"
)

// TestMembershipRemembersState: how far a task's state is stays known when the task is given up, and unknown is less than anything known.
func TestMembershipRemembersState(t *testing.T) {
	count := func(p int32) topology.TaskID { return topology.TaskID{Subtopology: "count", Partition: p} }
	m := &membership{stateful: map[string]bool{"count": true}, positions: map[topology.TaskID]int64{count(7): 0}}
	running := func(id topology.TaskID, offsets ...int64) TaskStatus {
		s := TaskStatus{ID: id, State: TaskRunning}
		for _, o := range offsets {
			s.Inputs = append(s.Inputs, InputStatus{Offset: o})
		}
		return s
	}
	stopped := running(count(2), 5)
	stopped.State, stopped.Reason = TaskStopped, "why"
	first := m.join([]TaskStatus{
		running(count(1), 0, 0), stopped, running(topology.TaskID{Subtopology: "copy"}, 9), {ID: count(3), State: TaskRestoring},
	})
	local := []assign.LocalTask{{Task: count(1), Position: 1}, {Task: count(2), Position: 6}, {Task: count(7), Position: 0}}
	if !reflect.DeepEqual(first.Local, local) {
		t.Errorf("local state is %v, want %v", first.Local, local)
	}
	if want := []assign.StoppedTask{{Task: count(2), Reason: "why"}}; !reflect.DeepEqual(first.Stopped, want) {
		t.Errorf("stopped tasks are %v, want %v", first.Stopped, want)
	}
	if later := m.join(nil); !reflect.DeepEqual(later.Local, first.Local) || len(later.Stopped) > 0 {
		t.Errorf("after everything was given up: %+v", later)
	}
}

// TestStoppedTasksAreTold: what the plan did not count because it was stopped, and is not stopped in a new session, forces a rebalance; what
// still is or stops again does not.
func TestStoppedTasksAreTold(t *testing.T) {
	own := assign.Entry{Member: "me"}
	none, err := peers.New(peers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{
		in:    &instance{membership: &membership{forcing: assign.NewForcing(own, revokeWait)}, watch: &watch{peers: none}},
		tasks: newTaskTable(), planned: make(chan struct{}, 1),
	}
	e := &taskEntry{stopped: errors.New("poison")}
	s.tasks.entries[topology.TaskID{Subtopology: "in"}] = e
	s.tasks.entries[topology.TaskID{Subtopology: "in", Partition: 1}] = &taskEntry{}
	plan := assign.Plan{ID: 1, Entries: []assign.Entry{own}}
	plan.Entries[0].Stopped = 1
	(*callbacks)(s).Planned(plan, false)
	if _, why, ok := s.due(); ok {
		t.Errorf("a rebalance is due because of %q while the task is stopped", why)
	}
	s.in.membership.left()
	e.stopped = nil
	(*callbacks)(s).Planned(plan, false) // the old assignment again
	if _, why, ok := s.due(); !ok || why != assign.Working {
		t.Errorf("due is %t because of %q, want a rebalance because the task works again", ok, why)
	}
	e.stopped = errors.New("poison")
	if _, why, ok := s.due(); ok {
		t.Errorf("a rebalance is due because of %q although the task stopped again", why)
	}
}
