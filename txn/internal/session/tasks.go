package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/worker"
)

// route leads from an input partition to its task.
type route struct {
	task   *task.Task
	input  int
	worker *worker.Worker
}

type partitionKey struct {
	topic     string
	partition int32
}

// taskTable is what the session knows of its tasks.
type taskTable struct {
	sync.RWMutex
	routes  map[partitionKey]*route
	entries map[topology.TaskID]*taskEntry
}

type taskEntry struct {
	worker   *worker.Worker // nil until adopted
	task     *task.Task     // the worker's
	progress restore.Progress
	stopped  error
	// resumes says that the task is stopped until its disk has space again, and then goes on by itself.
	resumes bool
	// database is the task's once it is adopted; restoring is the one that a restore fills before, for stale reads only.
	database, restoring state.Database
}

func newTaskTable() *taskTable {
	return &taskTable{routes: map[partitionKey]*route{}, entries: map[topology.TaskID]*taskEntry{}}
}

// TaskStatus is what a task of a session is doing.
type TaskStatus struct {
	ID topology.TaskID
	// Restore is what its restore has done and has to do.
	Restore restore.Snapshot
	// Worker is what its worker knows of it; nil while it is not open.
	Worker *worker.TaskStatus
	// Stopped is why it does no work; nil if it does.
	Stopped error
}

func (t *taskTable) status(workers []*worker.Worker) []TaskStatus {
	t.RLock()
	defer t.RUnlock()
	running := t.running(workers)
	out := make([]TaskStatus, 0, len(t.entries))
	for id, e := range t.entries {
		s := TaskStatus{ID: id, Restore: e.progress.Read(time.Now()), Stopped: e.stopped} // the worker may not know yet that it is stopped
		if r, ok := running[id]; ok {
			s.Worker, s.Stopped = &r, cmp.Or(e.stopped, r.Stopped)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b TaskStatus) int {
		return compareTasks(a.ID, b.ID)
	})
	return out
}

// now returns what the tasks are doing, as the group has to know it.
func (t *taskTable) now(workers []*worker.Worker) []assign.TaskNow {
	tasks := t.status(workers)
	out := make([]assign.TaskNow, len(tasks))
	for i, task := range tasks {
		out[i] = assign.TaskNow{Task: task.ID, Stopped: task.Stopped}
		if task.Worker == nil {
			continue
		}
		for _, in := range task.Worker.Inputs {
			out[i].Offsets = append(out[i].Offsets, in.Offset)
		}
	}
	return out
}

// running collects what the workers know of their tasks.
func (t *taskTable) running(workers []*worker.Worker) map[topology.TaskID]worker.TaskStatus {
	running := map[topology.TaskID]worker.TaskStatus{}
	for _, w := range workers {
		for id, s := range w.Tasks() {
			running[id] = s
		}
	}
	return running
}

// openedAs reports whether every open task was opened under a member id.
func (t *taskTable) openedAs(member string) bool {
	t.RLock()
	defer t.RUnlock()
	for _, e := range t.entries {
		if e.task != nil && e.task.Member != member {
			return false
		}
	}
	return true
}

// callbacks are the session as the group sees it.
type callbacks Session

func (c *callbacks) Assigned(partitions map[string][]int32) {
	s := (*Session)(c)
	_ = s.cfg.Failpoints.Hit(s.ctx, failpoint.Assigned) // a callback cannot fail
	for topic, ps := range partitions {
		for _, p := range ps {
			s.pauses.set(topic, p, restoring) // until the task is open
		}
	}
	s.cfg.Metrics.Assigned(partitions)
	complete := s.ownership.Add(partitions)
	s.divide()
	for _, id := range complete {
		ctx, cancel := context.WithCancel(s.ctx)
		s.mu.Lock()
		s.mu.cancels[id] = cancel
		s.mu.Unlock()
		e := &taskEntry{}
		s.tasks.Lock()
		s.tasks.entries[id] = e
		s.tasks.Unlock()
		before, leave := s.openings.enter(id)
		s.opening.Go(func() {
			defer leave()
			<-before // whose context has ended, at the latest when the task was given up
			s.open(ctx, id, e)
			s.tellRunning()
		})
	}
}

func (c *callbacks) Revoked(ctx context.Context, partitions map[string][]int32) {
	ctx, cancel := context.WithTimeout(ctx, RevokeWait)
	defer cancel()
	_ = c.cfg.Failpoints.Hit(ctx, failpoint.RevokedBefore) // a callback cannot fail
	c.cfg.Metrics.Revoked(partitions)
	(*Session)(c).giveUp(ctx, partitions)
	_ = c.cfg.Failpoints.Hit(ctx, failpoint.RevokedAfter)
}

func (c *callbacks) Lost(partitions map[string][]int32) {
	s := (*Session)(c)
	ctx, cancel := context.WithTimeout(s.ctx, RevokeWait)
	defer cancel()
	s.cfg.Metrics.Lost(partitions)
	_ = s.cfg.Failpoints.Hit(ctx, failpoint.LostBefore) // a callback cannot fail
	s.giveUp(ctx, partitions)
}

// giveUp raises the epochs first, so that nothing of these tasks can be committed any more, and then waits for what is in flight.
func (s *Session) giveUp(ctx context.Context, partitions map[string][]int32) {
	ids := s.ownership.Remove(partitions)
	s.cfg.Self.Remember(s.tasks.now(s.workers))
	for _, id := range ids {
		if s.ownership.Partial(id) {
			// The plan moves a task's inputs together, so this is a safety net. What was fetched of the inputs that stay is lost with
			// the task, and the client would not fetch it again: only a new membership does.
			defer s.cancel(fmt.Errorf("%w: task %s keeps some of its inputs", worker.ErrReopen, id))
		}
	}
	var wg sync.WaitGroup
	for _, id := range ids {
		s.mu.Lock()
		cancel := s.mu.cancels[id]
		delete(s.mu.cancels, id)
		s.mu.Unlock()
		if cancel != nil {
			cancel()
		}
		w, t := s.forget(id)
		if w == nil {
			continue
		}
		wg.Go(func() {
			if err := w.Release(ctx, t); err != nil && !errors.Is(err, worker.ErrEnded) {
				s.cfg.Logger.Warn("a revoked task is not closed yet", "task", id.String(), "error", err)
			}
		})
	}
	wg.Wait()
	for topic, ps := range partitions {
		for _, p := range ps {
			s.pauses.forget(topic, p)
		}
	}
	s.divide()
}

// divide divides what the process may hold in memory among what it is assigned now; what is new is not opened or fetched before.
func (s *Session) divide() {
	s.intake.divide(s.ownership.Partitions())
	databases := 0
	for _, id := range s.ownership.Owned() {
		if len(s.subs[id.Subtopology].Stores) > 0 {
			databases++
		}
	}
	s.cfg.Shared.Expect(databases)
	// Where shares are larger now, nobody else may ask again for what has stopped.
	s.tasks.RLock()
	defer s.tasks.RUnlock()
	for key, r := range s.tasks.routes {
		if r.task.Waiting(r.input) < s.intake.low() {
			s.resume(key.topic, key.partition)
		}
	}
}

// forget takes a task out of the table and returns the worker that has it, or is about to.
func (s *Session) forget(id topology.TaskID) (*worker.Worker, *task.Task) {
	s.tasks.Lock()
	defer s.tasks.Unlock()
	e := s.tasks.entries[id]
	delete(s.tasks.entries, id)
	for key, r := range s.tasks.routes {
		if r.task.ID == id {
			delete(s.tasks.routes, key)
		}
	}
	if e == nil {
		return nil, nil
	}
	return e.worker, e.task
}

// open restores a task and gives it to a worker. Whatever goes wrong and is not the task's own fault is tried again for as long as
// the task is ours.
func (s *Session) open(ctx context.Context, id topology.TaskID, e *taskEntry) {
	pause := backoff.Backoff{Next: 50 * time.Millisecond, Max: time.Second}
	space := s.newSpaceWait()
	for {
		err := s.tryOpen(ctx, id, e)
		var stop *restore.StopError
		switch {
		case err == nil || ctx.Err() != nil || s.isStopped(e):
			return
		case errors.Is(err, state.ErrFull):
			if s.openWhenSpace(ctx, id, e, &space, err) != nil {
				return
			}
			continue
		case errors.As(err, &stop):
			s.cfg.Logger.Error("task stopped", "task", id.String(), "error", err)
			if stop.Cause == nil || errors.Is(err, restore.ErrNotExact) || errors.Is(err, restore.ErrLostRows) {
				err = fmt.Errorf("%w: %w", ErrIntegrity, err)
			}
			s.taskStopped(id, e, err)
			return
		case errors.Is(err, errNoGraph), broker.Permanent(err):
			s.cfg.Logger.Error("task stopped", "task", id.String(), "error", err)
			s.taskStopped(id, e, err)
			return
		case errors.Is(err, assign.ErrMemberChanged):
			s.cancel(err)
			return
		}
		s.cfg.Logger.Warn("opening a task failed and is tried again", "task", id.String(), "error", err, "after", pause.Next)
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

func compareTasks(a, b topology.TaskID) int {
	return cmp.Or(cmp.Compare(a.Subtopology, b.Subtopology), cmp.Compare(a.Partition, b.Partition))
}
