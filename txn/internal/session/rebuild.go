package session

import (
	"fmt"

	"github.com/onceward/onceward/txn/internal/worker"
)

// dropRebuilds gives up what was asked for tasks that an assignment has left to others, and that
// are not promised.
func (s *Session) dropRebuilds() {
	if s.cfg.Rebuilds == nil || s.promised.Load() {
		return
	}
	for _, id := range s.cfg.Rebuilds.Gone(s.tasks.Has) {
		s.cfg.Logger.Warn("a rebuild is given up: the task has moved to another instance", "task", id.String())
	}
}

// errRebuilt ends a session so that another one rebuilds tasks.
var errRebuilt = fmt.Errorf("%w: databases are rebuilt", worker.ErrReopen)

// Rebuild ends the session so that the next one rebuilds what was asked for.
func (s *Session) Rebuild() { s.endPoll(errRebuilt) }
