package opening

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/dispatch"
)

// A task whose disk is full stops like any other (rule 10.5): it keeps its offsets and is in no
// round. But nobody has to resume it. Its database is a valid prefix of what is committed and the
// changelogs have the rest, so all that it needs is space, and the process looks for that itself:
// rarely, because nothing tells it, and before it opens the task, because an attempt that fails
// again costs the other tasks a pause.
//
// A task that worked is opened again with a new membership, as [App.Resume] does it. One that was
// being opened has fetched nothing yet, and waits where it is.

// The pause before space is looked for: the first time, and at most.
const (
	spaceWaitMin = time.Second
	spaceWaitMax = time.Minute
)

// spaceWait waits for space. It belongs to one goroutine.
type spaceWait struct {
	o    *Opener
	next time.Duration
}

func (o *Opener) newSpaceWait() spaceWait { return spaceWait{o, spaceWaitMin} }

// wait returns when the disk has space again, or with ctx's error. The pauses go on growing from
// one call to the next: a task that fills the disk whenever there is a little space is not opened
// all the time.
func (w *spaceWait) wait(ctx context.Context) error {
	for {
		if err := backoff.Sleep(ctx, w.next); err != nil {
			return err
		}
		w.next = min(2*w.next, spaceWaitMax)
		err := w.o.checkSpace()
		if err == nil {
			return nil
		}
		w.o.cfg.Logger.Warn("tasks wait for space on the disk", "error", err, "again_in", w.next)
	}
}

// WaitForSpace returns when the disk has space again, or with ctx's error.
func (o *Opener) WaitForSpace(ctx context.Context) error {
	w := o.newSpaceWait()
	return w.wait(ctx)
}

// checkSpace looks for space in the state directory, one caller at a time.
func (o *Opener) checkSpace() error {
	o.space.Lock()
	defer o.space.Unlock()
	return pebblestore.CheckSpace(o.cfg.Directory.Path(), o.commonOptions())
}

// FullDisk says in one line what is full and what follows. why may come from a processor, whose
// text is not shown.
func (o *Opener) FullDisk(why error) error {
	free := "an unknown number of"
	if n, ok := pebblestore.FreeBytes(o.cfg.Directory.Path(), o.commonOptions()); ok {
		free = fmt.Sprint(n)
	}
	return fmt.Errorf("%w: %s bytes are free in the state directory %s; the task goes on by itself when there is space: %w",
		state.ErrFull, free, o.cfg.Directory.Path(), why)
}

// openWhenSpace stops a task that is being opened until the disk has space. It returns an error
// when it is not to be opened any more.
func (o *Opener) openWhenSpace(ctx context.Context, id graph.TaskID, e *dispatch.Entry, space *spaceWait, why error) error {
	why = o.FullDisk(why)
	o.cfg.Logger.Error("task stopped", "task", id.String(), "error", why)
	o.cfg.Tasks.Suspend(e, why)
	if err := o.cfg.Suspended(id, why); err != nil {
		return err
	}
	if err := space.wait(ctx); err != nil {
		return err
	}
	o.cfg.Tasks.GoOn(e)
	return nil
}
