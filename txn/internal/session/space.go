package session

import (
	"fmt"

	"github.com/onceward/onceward/txn/internal/worker"
)

// errSpace ends a session so that the next one opens the tasks that a full disk has stopped.
var errSpace = fmt.Errorf("%w: the disk has space again", worker.ErrReopen)

// spaceWanted wakes watchSpace. It does not block.
func (s *Session) spaceWanted() {
	select {
	case s.full <- struct{}{}:
	default:
	}
}

// watchSpace ends the session, for the next one, when tasks that worked have stopped for a full
// disk, there is space again, and the global tables serve, which may have met the full disk first.
// It ends with the session.
func (s *Session) watchSpace() {
	select {
	case <-s.ctx.Done():
		return
	case <-s.full:
	}
	if s.opener.WaitForSpace(s.ctx) != nil || s.cfg.Globals.Wait(s.ctx) != nil {
		return
	}
	s.cfg.Logger.Info("the disk has space again: its tasks are opened")
	s.endPoll(errSpace)
}
