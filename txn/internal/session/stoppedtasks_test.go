package session

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/opening"
	"github.com/onceward/onceward/txn/internal/standby"
	"github.com/onceward/onceward/txn/internal/task"
)

// noTasks returns a dispatcher without a client.
func noTasks() *dispatch.Dispatcher {
	nothing := func(string, int32) {}
	return dispatch.New(dispatch.Config{Pause: nothing, Resume: nothing})
}

func noCopies() *standby.Keeper { return standby.New(standby.Config{}) }

// stopping is a task that works, or why it does not.
type stopping struct {
	why     error
	resumes bool
}

// A task that was revoked a moment ago and reaches a poison record before its worker sees the
// release must not end the process.
func TestStoppedWhileRevoked(t *testing.T) {
	s := &Session{tasks: noTasks()}
	s.poll, s.endPoll = context.WithCancelCause(t.Context())
	s.stoppedByWorker(&task.Task{Spec: task.Spec{ID: graph.TaskID{Subtopology: "in"}}}, errors.New("poison"))
	if err := context.Cause(s.poll); err != nil {
		t.Errorf("the session ends with %v", err)
	}
}

// TestSettledWithStoppedTasks: an assignment that leaves nothing but stopped tasks ends the
// session; one that leaves none at all, or one that still works, is on its way or is promised, does
// not (rule 10.5).
func TestSettledWithStoppedTasks(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, tc := range []struct {
		name     string
		tasks    []stopping
		promised bool
		ends     bool
	}{
		{"no task", nil, false, false},
		{"one that works, or restores", []stopping{{}}, false, false},
		{"one that is stopped, and one that is not", []stopping{{why: first}, {}}, false, false},
		{"all are stopped", []stopping{{why: first}, {why: second}}, false, true},
		{"one goes on when there is space", []stopping{{why: first}, {why: second, resumes: true}}, false, false},
		{"all are stopped, and another one is promised", []stopping{{why: first}}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &Session{tasks: noTasks()}
			s.poll, s.endPoll = context.WithCancelCause(t.Context())
			for p, task := range tc.tasks {
				id := graph.TaskID{Subtopology: "in", Partition: int32(p)}
				if e := s.tasks.Enter(id); task.why != nil {
					s.tasks.Stop(id, e, task.why, task.resumes)
				}
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

// TestRebuildEndsWithOwnership: what was asked for a task ends when the task has moved to another
// instance, and not while it is on its way back.
func TestRebuildEndsWithOwnership(t *testing.T) {
	stays, moves := graph.TaskID{Subtopology: "in", Partition: 0}, graph.TaskID{Subtopology: "in", Partition: 1}
	s := &Session{tasks: noTasks(), cfg: Config{Rebuilds: &opening.Rebuilds{}, Logger: slog.New(slog.DiscardHandler)}}
	s.tasks.Enter(stays)
	s.cfg.Rebuilds.Ask(stays, nil)
	s.cfg.Rebuilds.Ask(moves, []string{"rows"})
	s.promised.Store(true)
	(*callbacks)(s).Settled()
	if _, ok := s.cfg.Rebuilds.Wanted(moves); !ok {
		t.Error("a task that is promised is not rebuilt")
	}
	s.promised.Store(false)
	(*callbacks)(s).Settled()
	if _, ok := s.cfg.Rebuilds.Wanted(moves); ok {
		t.Error("the request outlives the ownership of the task")
	}
	if _, ok := s.cfg.Rebuilds.Wanted(stays); !ok {
		t.Error("a task that stays is not rebuilt")
	}
}
