package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/worker"
)

// taskStopped notes why a task does not work any more. It ends the session when no other is left
// that could, or when the application is to end with the first.
func (s *Session) taskStopped(id graph.TaskID, e *dispatch.Entry, err error) {
	full := errors.Is(err, state.ErrFull)
	if full {
		err = s.opener.FullDisk(err)
		defer s.spaceWanted()
	}
	if !s.tasks.Stop(id, e, err, full) {
		return // revoked meanwhile: the next owner tries, who may be this process again
	}
	if s.cfg.FailFast || errors.Is(err, restore.ErrMode) { // the tasks are to go back to where they came from
		s.endPoll(fmt.Errorf("%w: task %s: %w", ErrStopped, id, err))
		return
	}
	s.endIfAllStopped()
}

// suspended ends the session if the application is to end with the first task that stops, and be it
// for want of space.
func (s *Session) suspended(id graph.TaskID, why error) error {
	if !s.cfg.FailFast {
		return nil
	}
	s.endPoll(fmt.Errorf("%w: task %s: %w", ErrStopped, id, why))
	return ErrStopped
}

// Settled is part of broker.Assignment. Tasks may have moved away: what was asked for them is over,
// and what is left may all be stopped.
func (c *callbacks) Settled() {
	s := (*Session)(c)
	s.settle()
	s.tellRunning()
}

func (s *Session) settle() {
	s.dropRebuilds()
	s.endIfAllStopped()
}

// tellRunning logs which tasks run, once none is being opened any more and if they are others than
// before.
func (s *Session) tellRunning() {
	if s.cfg.Logger == nil { // a session without one, in tests
		return
	}
	working, halted, ok := s.tasks.Running()
	if !ok {
		return // the last one that is opened tells
	}
	running, stopped := names(working), names(halted)
	tasks := strings.Join(running, " ")
	s.told.Lock()
	defer s.told.Unlock()
	if now := "tasks " + tasks; s.told.tasks != now && s.ctx.Err() == nil {
		s.told.tasks = now
		s.cfg.Logger.Info("running", "tasks", tasks, "stopped", strings.Join(stopped, " "))
	}
}

// names are the tasks as the log names them, sorted.
func names(ids []graph.TaskID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	slices.Sort(out)
	return out
}

// endIfAllStopped ends the session when it has tasks, none of them works and none is promised. A
// process without any task stays: it is there for the tasks of others.
func (s *Session) endIfAllStopped() {
	if s.promised.Load() {
		return // the next assignment brings a promised task, or gives it to another member
	}
	if why := s.tasks.AllStopped(); why != nil {
		s.endPoll(fmt.Errorf("%w: %w", ErrAllStopped, why))
	}
}

// stoppedByWorker is taskStopped for a task that stopped by itself.
func (s *Session) stoppedByWorker(t *task.Task, err error) {
	if e := s.tasks.EntryOf(t); e != nil {
		s.taskStopped(t.ID, e, err)
	}
}

// haltTask stops a task for a reason that is not its record.
func (s *Session) haltTask(id graph.TaskID, why error) {
	e, w, t := s.tasks.Working(id)
	if e == nil {
		return // told before, or given up
	}
	s.cfg.Logger.Error("task stopped", "task", id.String(), "error", why)
	s.taskStopped(id, e, why)
	if w != nil {
		w.Halt(t, why)
	}
}

// ErrIntegrity says that state, offsets and log contradict each other, or that records were deleted
// before they were processed. Nothing was applied that contradicts the log.
var ErrIntegrity = worker.ErrIntegrity

// stopped returns why tasks of the session do not work any more, nil when all of them do.
func (s *Session) stopped() error {
	n, of, why := s.tasks.Stopped()
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d, one of them because of: %w", ErrStopped, n, of, why)
}

// ErrStopped says that some tasks of the instance had stopped before its end. The reason of one is
// wrapped with it.
var ErrStopped = errors.New("tasks are stopped")

// ErrAllStopped says that the instance has tasks and none of them can work any more, be it that the
// last one stopped or that the last one that worked has moved to another instance. The reason of
// one is wrapped with it.
var ErrAllStopped = errors.New("all tasks are stopped")
