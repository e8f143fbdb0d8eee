package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/worker"
)

// Rebuilds are the databases that are to be made anew when their tasks are opened the next time, with the stores, none for all. They
// outlive a membership, because a rebuild begins with a new one. They end with the ownership of the task: a task that comes back some day has
// another history by then, and nobody waits for its rebuild any more.
type Rebuilds struct {
	mu    sync.Mutex
	asked map[topology.TaskID][]string
}

// Ask has the database of a task made anew, with these stores of it, all if there are none.
func (r *Rebuilds) Ask(id topology.TaskID, stores []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = map[topology.TaskID][]string{}
	}
	r.asked[id] = stores
}

func (r *Rebuilds) wanted(id topology.TaskID) (stores []string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stores, ok = r.asked[id]
	return stores, ok
}

func (r *Rebuilds) over(id topology.TaskID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, id)
}

// gone forgets the requests about tasks that are not here, and returns them.
func (r *Rebuilds) gone(here func(topology.TaskID) bool) (gone []topology.TaskID) {
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

// forgetRebuilds gives up what was asked for tasks that an assignment has left to others, and that are not promised.
func (s *Session) forgetRebuilds() {
	if s.cfg.Rebuilds == nil || s.promised.Load() {
		return
	}
	for _, id := range s.cfg.Rebuilds.gone(s.tasks.Has) {
		s.cfg.Logger.Warn("a rebuild is given up: the task has moved to another instance", "task", id.String())
	}
}

// errRebuilt ends a session so that another one rebuilds tasks.
var errRebuilt = fmt.Errorf("%w: databases are rebuilt", worker.ErrReopen)

// rebuild makes the database of a task anew, if that was asked for, before it is opened.
func (s *Session) rebuild(ctx context.Context, id topology.TaskID, e *dispatch.Entry) error {
	stores, ok := s.cfg.Rebuilds.wanted(id)
	if !ok {
		return nil
	}
	err := s.restorer.Rebuild(ctx, s.request(id, e), restore.Rebuild{
		Stores: stores, Directory: s.cfg.Directory,
		OpenAt: func(path string) (state.Database, error) { return pebblestore.Open(path, s.databaseOptions(id)) },
	}, &e.Progress)
	_, stops := errors.AsType[*restore.StopError](err)
	// Another try would meet the same. To open the task as it is ends better: what is damaged, or has another layout, is restored in full.
	hopeless := errors.Is(err, state.ErrCorrupt) || errors.Is(err, state.ErrLayout)
	if err == nil || stops || hopeless {
		s.cfg.Rebuilds.over(id)
	}
	switch {
	case err == nil:
		s.cfg.Logger.Info("a database was rebuilt from its changelogs", "task", id.String(), "stores", stores)
	case hopeless && !stops:
		s.cfg.Logger.Error("a rebuild is given up, and the task is opened without", "task", id.String(), "stores", stores, "error", err)
		return nil
	}
	return err
}

// Rebuild ends the session so that the next one rebuilds what was asked for.
func (s *Session) Rebuild() { s.endPoll(errRebuilt) }
