package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/worker"
)

// Input is an input partition.
type Input struct {
	Topic     string
	Partition int32
}

// route leads from an input partition to its task.
type route struct {
	task   *task.Task
	input  int
	worker *worker.Worker
}

// table is what is known of the tasks.
type table struct {
	sync.RWMutex
	routes  map[Input]*route
	entries map[graph.TaskID]*Entry
}

// Entry is a task from when it is assigned until it is given up.
type Entry struct {
	// Progress is what its restore has done.
	Progress restore.Progress

	worker  *worker.Worker // nil until adopted
	task    *task.Task     // the worker's
	stopped error
	// resumes says that the task is stopped until its disk has space again, and then goes on by
	// itself.
	resumes bool
	// database is the task's once it is adopted; restoring is the one that a restore fills before,
	// for stale reads only.
	database, restoring state.Database
}

func newTable() table {
	return table{routes: map[Input]*route{}, entries: map[graph.TaskID]*Entry{}}
}

// Assigned pauses partitions that were assigned until their tasks are ready.
func (d *Dispatcher) Assigned(partitions map[string][]int32) {
	for topic, ps := range partitions {
		for _, p := range ps {
			d.pauses.set(topic, p, restoring)
		}
	}
}

// Enter takes a task that was assigned.
func (d *Dispatcher) Enter(id graph.TaskID) *Entry {
	e := &Entry{}
	d.table.Lock()
	defer d.table.Unlock()
	d.table.entries[id] = e
	return e
}

// Restoring says which database a restore fills. The restore may close it again: then its views say
// so.
func (d *Dispatcher) Restoring(e *Entry, db state.Database) {
	d.table.Lock()
	defer d.table.Unlock()
	e.database, e.restoring = nil, db
}

// Adopt gives an open task to the worker with the fewest, and makes its routes. It fails if the
// task was given up or stopped while it was opened. owned is asked under the lock of the table
// whether the task is still owned as it was when it was opened.
func (d *Dispatcher) Adopt(t *task.Task, e *Entry, workers []*worker.Worker, owned func() bool) (*worker.Worker, error) {
	d.table.Lock()
	defer d.table.Unlock()
	if !owned() || d.table.entries[t.ID] != e || e.stopped != nil {
		return nil, fmt.Errorf("task %s was %w while it was restored", t.ID, assign.ErrGivenUp)
	}
	load := map[*worker.Worker]int{}
	for _, other := range d.table.entries {
		load[other.worker]++
	}
	w := slices.MinFunc(workers, func(a, b *worker.Worker) int { return load[a] - load[b] })
	e.worker, e.task = w, t
	if t.State != nil {
		e.database, e.restoring = t.State.Database(), nil
	}
	for i, in := range t.Spec.Inputs {
		d.table.routes[Input{in.Topic, in.Partition}] = &route{task: t, input: i, worker: w}
	}
	return w, nil
}

// Ready lets the partitions of an adopted task be fetched. It returns whether the task was given
// up, and why it was stopped, since it has routes: the worker may have been asked before it had the
// task.
func (d *Dispatcher) Ready(t *task.Task, e *Entry) (given bool, stopped error) {
	// Under the lock: a partition that was revoked and assigned again meanwhile must stay paused
	// until its new task is ready.
	d.table.RLock()
	defer d.table.RUnlock()
	for _, in := range t.Spec.Inputs {
		if r := d.table.routes[Input{in.Topic, in.Partition}]; r != nil && r.task == t {
			d.pauses.clear(in.Topic, in.Partition, restoring)
		}
	}
	return d.table.entries[t.ID] != e, e.stopped
}

// Stop notes why a task does not work any more, and pauses its inputs. resumes says that it goes on
// by itself. It returns false, and does nothing, if the task was given up meanwhile.
func (d *Dispatcher) Stop(id graph.TaskID, e *Entry, why error, resumes bool) bool {
	d.table.Lock()
	defer d.table.Unlock()
	if d.table.entries[id] != e {
		return false
	}
	e.stopped, e.resumes = why, resumes
	for _, src := range d.subs[id.Subtopology].Sources {
		d.pauses.set(src.Topic, id.Partition, taskHalted)
	}
	return true
}

// Suspend notes why a task that is being opened has to wait. [Dispatcher.GoOn] takes it back.
func (d *Dispatcher) Suspend(e *Entry, why error) {
	d.table.Lock()
	defer d.table.Unlock()
	e.stopped, e.resumes = why, true
}

// GoOn says that a task that was suspended is opened again.
func (d *Dispatcher) GoOn(e *Entry) {
	d.table.Lock()
	defer d.table.Unlock()
	e.stopped, e.resumes = nil, false
}

// IsStopped reports whether a task is stopped.
func (d *Dispatcher) IsStopped(e *Entry) bool {
	d.table.RLock()
	defer d.table.RUnlock()
	return e.stopped != nil
}

// Remove takes a task out of the table and returns the worker that has it, or is about to; nil if
// none has.
func (d *Dispatcher) Remove(id graph.TaskID) (*worker.Worker, *task.Task) {
	d.table.Lock()
	defer d.table.Unlock()
	e := d.table.entries[id]
	delete(d.table.entries, id)
	for key, r := range d.table.routes {
		if r.task.ID == id {
			delete(d.table.routes, key)
		}
	}
	if e == nil {
		return nil, nil
	}
	return e.worker, e.task
}

// Revoked drops every reason to pause partitions that were given up.
func (d *Dispatcher) Revoked(partitions map[string][]int32) {
	for topic, ps := range partitions {
		for _, p := range ps {
			d.pauses.drop(topic, p)
		}
	}
}

// EntryOf returns the entry of a task that a worker has, nil if the task was given up.
func (d *Dispatcher) EntryOf(t *task.Task) *Entry {
	d.table.RLock()
	defer d.table.RUnlock()
	if e := d.table.entries[t.ID]; e != nil && e.task == t {
		return e
	}
	return nil
}

// Working returns the entry of a task that is not stopped, nil if there is none, and the worker
// that has the task, nil if none has yet.
func (d *Dispatcher) Working(id graph.TaskID) (*Entry, *worker.Worker, *task.Task) {
	d.table.RLock()
	defer d.table.RUnlock()
	e := d.table.entries[id]
	if e == nil || e.stopped != nil {
		return nil, nil, nil
	}
	return e, e.worker, e.task
}

// Has reports whether a task is here.
func (d *Dispatcher) Has(id graph.TaskID) bool {
	d.table.RLock()
	defer d.table.RUnlock()
	return d.table.entries[id] != nil
}

// Tasks returns the tasks in their order.
func (d *Dispatcher) Tasks() []graph.TaskID {
	d.table.RLock()
	defer d.table.RUnlock()
	ids := make([]graph.TaskID, 0, len(d.table.entries))
	for id := range d.table.entries {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareTasks)
	return ids
}

// Route returns the open task that reads a partition, and as which of its inputs; nil if there is
// none.
func (d *Dispatcher) Route(topic string, partition int32) (t *task.Task, input int) {
	d.table.RLock()
	defer d.table.RUnlock()
	if r := d.table.routes[Input{topic, partition}]; r != nil {
		return r.task, r.input
	}
	return nil, 0
}

// Inputs returns the partitions that open tasks read.
func (d *Dispatcher) Inputs() map[Input]graph.TaskID {
	d.table.RLock()
	defer d.table.RUnlock()
	open := map[Input]graph.TaskID{}
	for at, r := range d.table.routes {
		open[at] = r.task.ID
	}
	return open
}

// Readers returns the tasks that read a partition, or with a negative partition those that read the
// topic.
func (d *Dispatcher) Readers(topic string, partition int32) (out []graph.TaskID) {
	d.table.RLock()
	defer d.table.RUnlock()
	for id := range d.table.entries {
		if partition >= 0 && id.Partition != partition {
			continue
		}
		if slices.ContainsFunc(d.subs[id.Subtopology].Sources, func(src graph.Source) bool { return src.Topic == topic }) {
			out = append(out, id)
		}
	}
	return out
}

// OpenedAs reports whether every open task was opened under a member id.
func (d *Dispatcher) OpenedAs(member string) bool {
	d.table.RLock()
	defer d.table.RUnlock()
	for _, e := range d.table.entries {
		if e.task != nil && e.task.Member != member {
			return false
		}
	}
	return true
}

// Databases are those of the tasks that work.
func (d *Dispatcher) Databases() map[graph.TaskID]state.Database {
	d.table.RLock()
	defer d.table.RUnlock()
	out := map[graph.TaskID]state.Database{}
	for id, e := range d.table.entries {
		if e.database != nil && e.stopped == nil {
			out[id] = e.database
		}
	}
	return out
}

// State is what can be read of a task's state.
type State struct {
	// Database is that of an open task; nil while it is restored. Restoring is the one that a
	// restore fills; nil if there is none.
	Database, Restoring state.Database
	// Task is nil while it is restored.
	Task *task.Task
	// Stopped is why the task does no work; nil if it does.
	Stopped error
}

// State returns what can be read of a task's state; ok is false if the task is not here.
func (d *Dispatcher) State(id graph.TaskID) (s State, ok bool) {
	d.table.RLock()
	defer d.table.RUnlock()
	e := d.table.entries[id]
	if e == nil {
		return State{}, false
	}
	return State{Database: e.database, Restoring: e.restoring, Task: e.task, Stopped: e.stopped}, true
}

// Status is what a task is doing.
type Status struct {
	ID graph.TaskID
	// Restore is what its restore has done and has to do.
	Restore restore.Snapshot
	// Worker is what its worker knows of it; nil while it is not open.
	Worker *worker.TaskStatus
	// Stopped is why it does no work; nil if it does.
	Stopped error
	// Task and Database are those of an open task.
	Task     *task.Task
	Database state.Database
}

// Status returns what the tasks are doing, in their order.
func (d *Dispatcher) Status(workers []*worker.Worker) []Status {
	d.table.RLock()
	defer d.table.RUnlock()
	running := map[graph.TaskID]worker.TaskStatus{}
	for _, w := range workers {
		for id, s := range w.Tasks() {
			running[id] = s
		}
	}
	out := make([]Status, 0, len(d.table.entries))
	for id, e := range d.table.entries {
		// The worker may not know yet that the task is stopped.
		s := Status{ID: id, Restore: e.Progress.Read(time.Now()), Stopped: e.stopped, Task: e.task, Database: e.database}
		if r, ok := running[id]; ok {
			s.Worker, s.Stopped = &r, cmp.Or(e.stopped, r.Stopped)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Status) int { return compareTasks(a.ID, b.ID) })
	return out
}

// Running returns the tasks that work and those that are stopped, in no order; ok is false while
// one is being opened.
func (d *Dispatcher) Running() (running, stopped []graph.TaskID, ok bool) {
	d.table.RLock()
	defer d.table.RUnlock()
	for id, e := range d.table.entries {
		switch {
		case e.stopped != nil:
			stopped = append(stopped, id)
		case e.task != nil:
			running = append(running, id)
		default:
			return nil, nil, false
		}
	}
	return running, stopped, true
}

// Stopped returns how many of the tasks do not work any more, and the reason that stands for all of
// them. It is the same reason at every look. A reason that says that stored data contradict each
// other comes before any other, because such a process is not to be started again as it is.
func (d *Dispatcher) Stopped() (stopped, of int, why error) {
	d.table.RLock()
	defer d.table.RUnlock()
	stopped, why = d.table.whyStopped()
	return stopped, len(d.table.entries), why
}

// AllStopped returns why no task works any more; nil if there is none, or if one works, is on its
// way, or waits for nothing but space.
func (d *Dispatcher) AllStopped() error {
	d.table.RLock()
	defer d.table.RUnlock()
	for _, e := range d.table.entries {
		if e.stopped == nil || e.resumes {
			return nil
		}
	}
	_, why := d.table.whyStopped()
	return why
}

// whyStopped is [Dispatcher.Stopped]. The caller holds the lock.
func (t *table) whyStopped() (stopped int, why error) {
	var first graph.TaskID
	for id, e := range t.entries {
		if e.stopped == nil {
			continue
		}
		stopped++
		grave, graver := contradicts(why), contradicts(e.stopped)
		if why == nil || graver && !grave || graver == grave && compareTasks(id, first) < 0 {
			first, why = id, e.stopped
		}
	}
	return stopped, why
}

// contradicts reports whether an error says that what is stored is damaged, or contradicts itself.
func contradicts(err error) bool {
	failure, isRecord := errors.AsType[*graph.Failure](err)
	return errors.Is(err, worker.ErrIntegrity) || errors.Is(err, state.ErrCorrupt) || isRecord && failure.Class == graph.Corruption
}

func compareTasks(a, b graph.TaskID) int {
	return cmp.Or(cmp.Compare(a.Subtopology, b.Subtopology), cmp.Compare(a.Partition, b.Partition))
}
