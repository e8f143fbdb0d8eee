package session

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/worker"
)

// errResumed ends a session so that another one opens the task again.
var errResumed = fmt.Errorf("%w: a task is resumed", worker.ErrReopen)

// Stopped reports whether a task of the session is stopped.
func (s *Session) Stopped(id graph.TaskID) bool {
	at, _ := s.tasks.State(id)
	return at.Stopped != nil
}

// Context ends when the session is abandoned.
func (s *Session) Context() context.Context { return s.ctx }

// Resume ends the session so that the next one opens a task again.
func (s *Session) Resume(id graph.TaskID) { s.endPoll(fmt.Errorf("%w: %s", errResumed, id)) }
