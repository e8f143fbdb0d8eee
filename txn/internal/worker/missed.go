package worker

import (
	"errors"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// haltMissed stops the tasks whose store did not take a committed round. What they have in the round on top was computed upon a layer that
// will never be in their store, so that round runs again without them.
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

// closeTask closes a task. That a full disk did not take the last rounds is no failure: they are in the changelogs, and whoever opens the
// task next replays them.
func (w *Worker) closeTask(t *task.Task) error {
	err := t.Close()
	if errors.Is(err, state.ErrFull) {
		w.log.Warn("the disk is full: what the database did not take is replayed when the task is opened again",
			"task", t.ID.String(), "error", err)
		return nil
	}
	return err
}
