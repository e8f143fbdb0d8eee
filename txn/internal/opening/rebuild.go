package opening

import (
	"context"
	"errors"
	"sync"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/restore"
)

// Rebuilds are the databases that are to be rebuilt when their tasks are opened the next time, with
// the stores, none for all. They outlive a membership, because a rebuild begins with a new one.
// They end with the ownership of the task: a task that comes back later has another history, and
// its rebuild is not waited for.
type Rebuilds struct {
	mu    sync.Mutex
	asked map[graph.TaskID][]string
}

// Ask has the database of a task rebuilt, with these stores of it, all if there are none.
func (r *Rebuilds) Ask(id graph.TaskID, stores []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = map[graph.TaskID][]string{}
	}
	r.asked[id] = stores
}

// Wanted returns the stores of a task that are to be rebuilt; ok is false if nothing was asked for.
func (r *Rebuilds) Wanted(id graph.TaskID) (stores []string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stores, ok = r.asked[id]
	return stores, ok
}

func (r *Rebuilds) over(id graph.TaskID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, id)
}

// Gone drops the requests about tasks that are not here, and returns them.
func (r *Rebuilds) Gone(here func(graph.TaskID) bool) (gone []graph.TaskID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.asked {
		if !here(id) {
			gone = append(gone, id)
			delete(r.asked, id)
		}
	}
	return gone
}

// rebuild rebuilds the database of a task, if that was asked for, before it is opened.
func (o *Opener) rebuild(ctx context.Context, id graph.TaskID, e *dispatch.Entry) error {
	stores, ok := o.cfg.Rebuilds.Wanted(id)
	if !ok {
		return nil
	}
	// A copy of the task may be open still, in the place where the new database goes.
	if db := o.cfg.TakeCopy(id); db != nil {
		if err := db.Close(); err != nil {
			o.cfg.Logger.Warn("the copy of a task that is rebuilt is not closed in order", "task", id.String(), "error", err)
		}
	}
	err := o.cfg.Restorer.Rebuild(ctx, o.request(id, e), restore.Rebuild{
		Stores: stores, Directory: o.cfg.Directory,
		OpenAt: func(path string) (state.Database, error) { return o.openDatabase(id, path) },
	}, &e.Progress)
	_, stops := errors.AsType[*restore.StopError](err)
	// Another try would meet the same. To open the task as it is ends better: what is damaged, or
	// has another layout, is restored in full.
	hopeless := errors.Is(err, state.ErrCorrupt) || errors.Is(err, state.ErrLayout)
	if err == nil || stops || hopeless {
		o.cfg.Rebuilds.over(id)
	}
	switch {
	case err == nil:
		o.cfg.Logger.Info("a database was rebuilt from its changelogs", "task", id.String(), "stores", stores)
	case hopeless && !stops:
		o.cfg.Logger.Error("a rebuild is given up, and the task is opened without", "task", id.String(), "stores", stores, "error", err)
		return nil
	}
	return err
}
