package worker

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// apply writes a committed round to the stores. A task whose database has stopped misses it, which
// stops that task and is no failure of the round: its database is at an earlier round, and the
// changelogs have the rest. A database that works and refuses the round is not where the log says
// that it is.
func (t *committer) apply(r *round) (protocol.EventKind, error) {
	for _, c := range r.contributions {
		switch err := c.Apply(); {
		case databaseStopped(err):
			c.Missed = fmt.Errorf("its store did not take a committed round: %w", err)
			continue
		case err != nil:
			return protocol.ApplyFailed, fmt.Errorf("task %s: %w", c.Task.ID, err)
		}
		switch err := c.Expire(); { // which reads: an error of the disk need not have stopped the database
		case errors.Is(err, state.ErrBase):
			return protocol.ApplyFailed, fmt.Errorf("task %s: %w", c.Task.ID, err)
		case err != nil:
			c.Missed = fmt.Errorf("after a committed round: %w", err)
		}
	}
	return protocol.Applied, nil
}

// databaseStopped reports whether an error is one of a database that has stopped: an I/O error, a
// full disk among them, or damage. Nothing that was committed is lost by it, and it is the matter
// of one task.
func databaseStopped(err error) bool {
	return errors.Is(err, state.ErrFailed) || errors.Is(err, state.ErrCorrupt)
}

// haltMissed stops the tasks that apply could not bring to the end of a committed round. Their part
// of the round on top was computed upon a layer that is dropped, so that round runs again without
// them.
func (w *Worker) haltMissed(r *round) {
	drop := false
	for _, c := range r.contributions {
		if c.Missed == nil {
			continue
		}
		drop = drop || w.open != nil && w.open.byTask[c.Task] != nil
		if c.Task.Stopped() == nil { // else a read has found out first
			w.halt(c.Task, c.Missed)
		}
	}
	if drop {
		w.step(protocol.Event{Kind: protocol.Dropped})
	}
}

// closeTask closes a task. If the database of a stopped task has stopped, or met a full disk, that
// is no failure. The reason is reported already, the changelogs have the writes that the database
// did not take, and the next opening of the task replays them.
func (w *Worker) closeTask(t *task.Task) error {
	err := t.Close()
	if errors.Is(err, state.ErrFull) || t.Stopped() != nil && databaseStopped(err) {
		w.log.Warn("what the database did not take is replayed when the task is opened again", "task", t.ID.String(), "error", err)
		return nil
	}
	return err
}
