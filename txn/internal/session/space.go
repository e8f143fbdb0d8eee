package session

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/dispatch"
)

// A task whose disk is full stops like any other (rule 10.5): it keeps its offsets and is in no round. But nobody has to resume it. Its
// database is a valid prefix of what is committed and the changelogs have the rest, so all that it needs is space, and the process looks
// for that itself: rarely, because nothing tells it, and before it opens the task, because an attempt that fails again costs the other
// tasks a pause.
//
// A task that worked is opened again with a new membership, as [App.Resume] does it. One that was being opened has fetched nothing yet,
// and waits where it is.

// The pause before space is looked for: the first time, and at most.
const (
	spaceWaitMin = time.Second
	spaceWaitMax = time.Minute
)

// spaceWait waits for space. It belongs to one goroutine.
type spaceWait struct {
	s    *Session
	next time.Duration
}

func (s *Session) newSpaceWait() spaceWait { return spaceWait{s, spaceWaitMin} }

// wait returns when the disk has space again, or with ctx's error. The pauses go on growing from one call to the next: a task that fills
// the disk whenever there is a little space is not opened all the time.
func (w *spaceWait) wait(ctx context.Context) error {
	for {
		if err := backoff.Sleep(ctx, w.next); err != nil {
			return err
		}
		w.next = min(2*w.next, spaceWaitMax)
		err := w.s.checkSpace()
		if err == nil {
			return nil
		}
		w.s.cfg.Logger.Warn("tasks wait for space on the disk", "error", err, "again_in", w.next)
	}
}

// checkSpace looks for space in the state directory, one caller at a time.
func (s *Session) checkSpace() error {
	s.space.Lock()
	defer s.space.Unlock()
	return pebblestore.CheckSpace(s.cfg.Directory.Path(), s.commonOptions())
}

// fullDisk says in one line what is full and what follows. why may come from a processor, whose text is not shown.
func (s *Session) fullDisk(why error) error {
	free := "an unknown number of"
	if n, ok := pebblestore.FreeBytes(s.cfg.Directory.Path(), s.commonOptions()); ok {
		free = fmt.Sprint(n)
	}
	return fmt.Errorf("%w: %s bytes are free in the state directory %s; the task goes on by itself when there is space: %w",
		state.ErrFull, free, s.cfg.Directory.Path(), why)
}

// spaceWanted wakes watchSpace. It does not block.
func (s *Session) spaceWanted() {
	select {
	case s.full <- struct{}{}:
	default:
	}
}

// watchSpace ends the session, for the next one, when tasks that worked have stopped for a full disk and there is space again. It ends with
// the session.
func (s *Session) watchSpace() {
	select {
	case <-s.ctx.Done():
		return
	case <-s.full:
	}
	space := s.newSpaceWait()
	if space.wait(s.ctx) != nil {
		return
	}
	s.cfg.Logger.Info("the disk has space again: its tasks are opened")
	s.endPoll(fmt.Errorf("%w: the disk has space again", errResumed))
}

// openWhenSpace stops a task that is being opened until the disk has space. It returns an error when it is not to be opened any more.
func (s *Session) openWhenSpace(ctx context.Context, id topology.TaskID, e *dispatch.Entry, space *spaceWait, why error) error {
	why = s.fullDisk(why)
	s.cfg.Logger.Error("task stopped", "task", id.String(), "error", why)
	s.tasks.Suspend(e, why)
	if s.cfg.FailFast {
		s.endPoll(fmt.Errorf("%w: task %s: %w", ErrStopped, id, why))
		return ErrStopped
	}
	if err := space.wait(ctx); err != nil {
		return err
	}
	s.tasks.GoOn(e)
	return nil
}
