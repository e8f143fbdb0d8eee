package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/task"
)

// A task that was revoked a moment ago and reaches a poison record before its worker sees the release must not end the process.
func TestStoppedWhileRevoked(t *testing.T) {
	s := &Session{tasks: newTaskTable()}
	s.poll, s.endPoll = context.WithCancelCause(t.Context())
	s.stoppedByWorker(&task.Task{Spec: task.Spec{ID: topology.TaskID{Subtopology: "in"}}}, errors.New("poison"))
	if err := context.Cause(s.poll); err != nil {
		t.Errorf("the session ends with %v", err)
	}
}

// TestSettledWithStoppedTasks: an assignment that leaves nothing but stopped tasks ends the session; one that leaves none at all, or one
// that still works, is on its way or is promised, does not (rule 10.5).
func TestSettledWithStoppedTasks(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, tc := range []struct {
		name     string
		tasks    []*taskEntry
		promised bool
		ends     bool
	}{
		{"no task", nil, false, false},
		{"one that works, or restores", []*taskEntry{{}}, false, false},
		{"one that is stopped, and one that is not", []*taskEntry{{stopped: first}, {}}, false, false},
		{"all are stopped", []*taskEntry{{stopped: first}, {stopped: second}}, false, true},
		{"one goes on when there is space", []*taskEntry{{stopped: first}, {stopped: second, resumes: true}}, false, false},
		{"all are stopped, and another one is promised", []*taskEntry{{stopped: first}}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &Session{tasks: newTaskTable()}
			s.poll, s.endPoll = context.WithCancelCause(t.Context())
			for p, e := range tc.tasks {
				s.tasks.entries[topology.TaskID{Subtopology: "in", Partition: int32(p)}] = e
			}
			s.promised.Store(tc.promised)
			(*callbacks)(s).Settled()
			err := context.Cause(s.poll)
			if !tc.ends && err != nil {
				t.Errorf("the session ends with %v", err)
			}
			if tc.ends && (!errors.Is(err, ErrAllStopped) || !errors.Is(err, first)) {
				t.Errorf("the session ends with %v, want ErrAllStopped because of the first task", err)
			}
			if s.promised.Store(false); tc.promised {
				if (*callbacks)(s).Settled(); !errors.Is(context.Cause(s.poll), ErrAllStopped) {
					t.Error("the session goes on although nothing is promised any more")
				}
			}
		})
	}
}

// TestWhyStopped: of several reasons the same one is told every time, and one that ends the process with the exit code of damaged data
// before all others.
func TestWhyStopped(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	lost := fmt.Errorf("%w: records were deleted", ErrIntegrity)
	corrupt := &topology.Failure{Class: topology.Corruption, Err: errors.New("a row")}
	for _, tc := range []struct {
		reasons []error
		want    error
		stopped int
	}{
		{[]error{nil, nil}, nil, 0},
		{[]error{nil, second, first}, second, 2},
		{[]error{first, second, lost, corrupt}, lost, 4},
		{[]error{first, corrupt, lost}, corrupt, 3},
		{[]error{first, fmt.Errorf("%w: a table", state.ErrCorrupt)}, state.ErrCorrupt, 2},
	} {
		for range 20 { // the order of a map
			tasks := newTaskTable()
			for p, why := range tc.reasons {
				tasks.entries[topology.TaskID{Subtopology: "in", Partition: int32(p)}] = &taskEntry{stopped: why}
			}
			if n, why := tasks.whyStopped(); n != tc.stopped || !errors.Is(why, tc.want) {
				t.Fatalf("of %v: %d, %v", tc.reasons, n, why)
			}
		}
	}
}

// TestRebuildEndsWithOwnership: what was asked for a task ends when the task has moved to another instance, and not while it is on its way
// back.
func TestRebuildEndsWithOwnership(t *testing.T) {
	stays, moves := topology.TaskID{Subtopology: "in", Partition: 0}, topology.TaskID{Subtopology: "in", Partition: 1}
	s := &Session{tasks: newTaskTable(), cfg: Config{Rebuilds: &Rebuilds{}, Logger: slog.New(slog.DiscardHandler)}}
	s.tasks.entries[stays] = &taskEntry{}
	s.cfg.Rebuilds.Ask(stays, nil)
	s.cfg.Rebuilds.Ask(moves, []string{"rows"})
	s.promised.Store(true)
	(*callbacks)(s).Settled()
	if _, ok := s.cfg.Rebuilds.wanted(moves); !ok {
		t.Error("a task that is promised is not rebuilt")
	}
	s.promised.Store(false)
	(*callbacks)(s).Settled()
	if _, ok := s.cfg.Rebuilds.wanted(moves); ok {
		t.Error("the request outlives the ownership of the task")
	}
	if _, ok := s.cfg.Rebuilds.wanted(stays); !ok {
		t.Error("a task that stays is not rebuilt")
	}
}
