package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
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

func (t *taskTable) status(workers []*worker.Worker) []TaskStatus {
	t.RLock()
	defer t.RUnlock()
	running := t.running(workers)
	out := make([]TaskStatus, 0, len(t.entries))
	for id, e := range t.entries {
		s := TaskStatus{ID: id, State: TaskRestoring}
		s.restore(e.progress.Read(time.Now()))
		if r, ok := running[id]; ok {
			s.fill(r)
		}
		if e.stopped != nil { // the worker may not know it yet
			s.State, s.Reason = TaskStopped, e.stopped.Error()
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b TaskStatus) int {
		return compareTasks(a.ID, b.ID)
	})
	return out
}

// restore takes what a restore has done and has to do. Of one that is over only what it has done is of interest.
func (s *TaskStatus) restore(p restore.Snapshot) {
	s.Restored, s.RestoredBytes, s.Remaining = p.Records, p.Bytes, p.Remaining
	s.RestoreRate, s.RestoreLeft = p.Rate, p.Left
}

func (s *TaskStatus) fill(r worker.TaskStatus) {
	s.State, s.Remaining, s.RestoreRate, s.RestoreLeft = TaskRunning, 0, 0, 0
	if r.Stopped != nil {
		s.State, s.Reason = TaskStopped, r.Stopped.Error()
	}
	s.Records, s.DeadLetters = r.Records, r.DeadLetters
	for _, in := range r.Inputs {
		is := InputStatus{Topic: in.Topic, Partition: in.Partition, Offset: in.Offset}
		if in.StreamTime != state.NoTime {
			is.StreamTime = time.UnixMilli(in.StreamTime).UTC()
		}
		s.Inputs = append(s.Inputs, is)
	}
	for c, n := range r.Outcomes {
		if s.Outcomes == nil {
			s.Outcomes = map[string]int64{}
		}
		s.Outcomes[c.Node+"/"+c.Outcome] = n
	}
}

// callbacks are the session as the group sees it.
type callbacks session

func (c *callbacks) Assigned(partitions map[string][]int32) {
	s := (*session)(c)
	_ = failpoint.Hit(s.ctx, failpoint.Assigned) // a callback cannot fail
	for topic, ps := range partitions {
		for _, p := range ps {
			s.pauses.set(topic, p, restoring) // until the task is open
		}
	}
	s.in.app.metrics.Assigned(partitions)
	for _, id := range s.ownership.Add(partitions) {
		ctx, cancel := context.WithCancel(s.ctx)
		s.mu.Lock()
		s.mu.cancels[id] = cancel
		s.mu.Unlock()
		e := &taskEntry{}
		s.tasks.Lock()
		s.tasks.entries[id] = e
		s.tasks.Unlock()
		s.opening.Go(func() { s.open(ctx, id, e) })
	}
}

func (c *callbacks) Revoked(ctx context.Context, partitions map[string][]int32) {
	ctx, cancel := context.WithTimeout(ctx, c.in.app.cfg.revokeWait)
	defer cancel()
	_ = failpoint.Hit(ctx, failpoint.RevokedBefore) // a callback cannot fail
	c.in.app.metrics.Revoked(partitions)
	(*session)(c).giveUp(ctx, partitions)
	_ = failpoint.Hit(ctx, failpoint.RevokedAfter)
}

func (c *callbacks) Lost(partitions map[string][]int32) {
	s := (*session)(c)
	ctx, cancel := context.WithTimeout(s.ctx, s.in.app.cfg.revokeWait)
	defer cancel()
	s.in.app.metrics.Lost(partitions)
	_ = failpoint.Hit(ctx, failpoint.LostBefore) // a callback cannot fail
	s.giveUp(ctx, partitions)
}

// giveUp raises the epochs first, so that nothing of these tasks can be committed any more, and then waits for what is in flight.
func (s *session) giveUp(ctx context.Context, partitions map[string][]int32) {
	ids := s.ownership.Remove(partitions)
	s.in.membership.remember(s.tasks.status(s.workers))
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
				s.in.app.log.Warn("a revoked task is not closed yet", "task", id.String(), "error", err)
			}
		})
	}
	wg.Wait()
	for topic, ps := range partitions {
		for _, p := range ps {
			s.pauses.forget(topic, p)
		}
	}
}

// forget takes a task out of the table and returns the worker that has it, or is about to.
func (s *session) forget(id topology.TaskID) (*worker.Worker, *task.Task) {
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
func (s *session) open(ctx context.Context, id topology.TaskID, e *taskEntry) {
	pause := backoff.Backoff{Next: 50 * time.Millisecond, Max: 5 * time.Second}
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
			s.in.app.log.Error("task stopped", "task", id.String(), "error", err)
			if stop.Cause == nil {
				err = fmt.Errorf("%w: %w", ErrIntegrity, err)
			}
			s.taskStopped(id, e, err)
			return
		case errors.Is(err, errNoGraph), broker.Permanent(err):
			s.in.app.log.Error("task stopped", "task", id.String(), "error", err)
			s.taskStopped(id, e, err)
			return
		case errors.Is(err, assign.ErrMemberChanged):
			s.cancel(err)
			return
		case errors.Is(err, broker.ErrNotConsumed):
			s.endPoll(fmt.Errorf("%w: %w", errResumed, err))
			return
		}
		s.in.app.log.Warn("opening a task failed and is tried again", "task", id.String(), "error", err, "after", pause.Next)
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

func (s *session) isStopped(e *taskEntry) bool {
	s.tasks.RLock()
	defer s.tasks.RUnlock()
	return e.stopped != nil
}

// taskStopped notes why a task does not work any more. It ends the session when no other is left that could, or when the application is to
// end with the first.
func (s *session) taskStopped(id topology.TaskID, e *taskEntry, err error) {
	full := errors.Is(err, state.ErrFull)
	if full {
		err = s.fullDisk(err)
		defer s.spaceWanted()
	}
	s.tasks.Lock()
	defer s.tasks.Unlock()
	if s.tasks.entries[id] != e {
		return // revoked meanwhile: the next owner tries, who may be this process again
	}
	e.stopped, e.resumes = err, full
	for _, src := range s.subs[id.Subtopology].Sources {
		s.pauses.set(src.Topic, id.Partition, taskHalted)
	}
	if s.failFast {
		s.endPoll(fmt.Errorf("%w: task %s: %w", ErrStopped, id, err))
		return
	}
	s.endIfAllStopped()
}

// Settled is part of broker.Assignment. The last task that works may have moved away: what is left is then all stopped.
func (c *callbacks) Settled() {
	s := (*session)(c)
	s.tasks.Lock()
	defer s.tasks.Unlock()
	s.endIfAllStopped()
}

// endIfAllStopped ends the session when it has tasks, none of them works and none is promised, with the reason of the first. A process
// without any task stays: it is there for the tasks of others. The caller holds the lock of the task table.
func (s *session) endIfAllStopped() {
	if len(s.tasks.entries) == 0 || s.promised.Load() {
		return // what is promised comes with another assignment, or goes to somebody else with one
	}
	var first topology.TaskID
	var reason error
	for id, e := range s.tasks.entries {
		if e.stopped == nil || e.resumes {
			return // it works, or is on its way, or waits for nothing but space
		}
		if reason == nil || compareTasks(id, first) < 0 {
			first, reason = id, e.stopped
		}
	}
	s.endPoll(fmt.Errorf("%w: %w", ErrAllStopped, reason))
}

func compareTasks(a, b topology.TaskID) int {
	return cmp.Or(cmp.Compare(a.Subtopology, b.Subtopology), cmp.Compare(a.Partition, b.Partition))
}

// stoppedByWorker is taskStopped for a task that stopped by itself.
func (s *session) stoppedByWorker(t *task.Task, err error) {
	s.tasks.RLock()
	e := s.tasks.entries[t.ID]
	ours := e != nil && e.task == t
	s.tasks.RUnlock()
	if ours {
		s.taskStopped(t.ID, e, err)
	}
}

// haltTask stops a task for a reason that is not its record.
func (s *session) haltTask(id topology.TaskID, why error) {
	s.tasks.RLock()
	e := s.tasks.entries[id]
	stopped := e == nil || e.stopped != nil
	var r *route
	if !stopped {
		r = s.tasks.routes[partitionKey{s.subs[id.Subtopology].Sources[0].Topic, id.Partition}]
	}
	s.tasks.RUnlock()
	if stopped {
		return // told before, or given up
	}
	s.in.app.log.Error("task stopped", "task", id.String(), "error", why)
	s.taskStopped(id, e, why)
	if r != nil {
		r.worker.Halt(r.task, why)
	}
}

// readers returns the tasks of this process that read a partition, or with a negative partition those that read the topic.
func (s *session) readers(topic string, partition int32) (out []topology.TaskID) {
	s.tasks.RLock()
	defer s.tasks.RUnlock()
	for id := range s.tasks.entries {
		if partition >= 0 && id.Partition != partition {
			continue
		}
		if slices.ContainsFunc(s.subs[id.Subtopology].Sources, func(src topology.Source) bool { return src.Topic == topic }) {
			out = append(out, id)
		}
	}
	return out
}

func (s *session) tryOpen(ctx context.Context, id topology.TaskID, e *taskEntry) error {
	// The member id is read before anything else, and compared again when the task is ready.
	member, generation := s.member()
	if member == "" || generation < 0 {
		return errors.New("the membership is not complete yet")
	}
	epoch, owned := s.ownership.Epoch(id)
	if !owned {
		return nil
	}
	if err := s.rebuild(ctx, id, e); err != nil {
		return err
	}
	result, err := s.restorer.Restore(ctx, s.request(id, e), &e.progress)
	if err != nil {
		return err
	}
	t, err := s.newTask(id, result, epoch, member)
	if err != nil {
		if result.Database != nil {
			err = errors.Join(err, result.Database.Close())
		}
		return err
	}
	if err := s.findEnds(ctx, t); err != nil {
		return errors.Join(err, t.Close())
	}
	if now, _ := s.member(); now != member {
		return errors.Join(fmt.Errorf("opening task %s: %w", id, assign.ErrMemberChanged), t.Close())
	}
	if err := s.adopt(ctx, t, e, epoch); err != nil {
		return errors.Join(err, t.Close())
	}
	return nil
}

// findEnds tells a task of several inputs where they end, so that it need not wait for one that holds nothing more.
func (s *session) findEnds(ctx context.Context, t *task.Task) error {
	if len(t.Spec.Inputs) < 2 || t.OrderWaitMax == 0 {
		return nil
	}
	for i, in := range t.Spec.Inputs {
		end, err := s.in.cluster.StableEnd(ctx, in.Topic, in.Partition)
		if err != nil {
			return fmt.Errorf("opening task %s: %w", t.ID, err)
		}
		t.SetEnd(i, end)
	}
	return nil
}

// flushBytesFailpoints makes databases write often in a build with failpoints: otherwise nothing would be on the disk when a short life
// is killed, and every restore would begin at the start.
const flushBytesFailpoints = 256

// databaseOptions are those of a task's database.
func (s *session) databaseOptions(id topology.TaskID) pebblestore.Options {
	o := s.commonOptions()
	o.Logger = s.in.app.log.With("task", id.String())
	return o
}

// commonOptions are what all databases of the process have in common.
func (s *session) commonOptions() pebblestore.Options {
	o := pebblestore.Options{Shared: s.in.shared}
	if failpoint.Enabled {
		o.FlushBytes = flushBytesFailpoints
	}
	if change := s.in.app.cfg.databases; change != nil {
		change(&o)
	}
	return o
}

// request describes the task to the restorer.
func (s *session) request(id topology.TaskID, e *taskEntry) restore.Request {
	req := restore.RequestOf(id, s.subs[id.Subtopology], s.in.starts)
	req.Open = func() (state.Database, error) {
		path, err := s.in.dir.TaskPath(id.Subtopology, id.Partition)
		if err != nil {
			return nil, err
		}
		db, err := pebblestore.Open(path, s.databaseOptions(id))
		if err != nil {
			return nil, err
		}
		s.tasks.Lock()
		e.database, e.restoring = nil, db // whoever restores may close it again: then its views say so
		s.tasks.Unlock()
		return db, nil
	}
	req.Remove = func() error { return s.in.dir.RemoveTask(id.Subtopology, id.Partition) }
	return req
}

func (s *session) newTask(id topology.TaskID, r restore.Result, epoch uint64, member string) (*task.Task, error) {
	sub := s.subs[id.Subtopology]
	spec := task.Spec{
		ID: id, Inputs: r.Positions.Inputs, Committed: r.Positions, Metadata: r.Metadata, Epoch: epoch, Member: member,
		OrderWaitMax: max(s.in.app.cfg.OrderWaitMax, 0),
	}
	for _, st := range sub.Stores {
		spec.Changelogs = append(spec.Changelogs, task.Changelog{Store: st.Name, Topic: st.ChangelogTopic, Layout: st.Layout})
	}
	var graphState topology.State
	if r.Database != nil {
		st, err := state.NewTask(r.Database, sub.Declarations())
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", id, err)
		}
		spec.State, graphState = st, st
	} else {
		graphState = stateless{}
	}
	layout := *s.in.layout.Load()
	graph, err := s.in.app.topology.NewGraph(id, graphState, topology.GraphConfig{
		Partitions:      func(topic string) int32 { return layout[topic].Partitions },
		MaxMessageBytes: func(topic string) int32 { return layout[topic].MaxMessageBytes },
		Compacted:       func(topic string) bool { return layout[topic].Compacted },
		Now:             time.Now,

		MaxFutureTimestamp: s.in.app.cfg.MaxFutureTimestamp,
	})
	if err != nil {
		return nil, fmt.Errorf("%w of task %s: %w", errNoGraph, id, err)
	}
	spec.Graph = graph
	return task.New(spec), nil
}

// errNoGraph says that a factory of the topology failed, which it would do again.
var errNoGraph = errors.New("making the graph")

// stateless is the state of a task without stores.
type stateless struct{}

func (stateless) Store(string) state.Bytes { return nil }
func (stateless) Mark()                    {}
func (stateless) Revert()                  {}

// adopt gives the task to the worker with the fewest, makes its routes and lets its partitions be fetched.
func (s *session) adopt(ctx context.Context, t *task.Task, e *taskEntry, epoch uint64) error {
	s.tasks.Lock()
	if now, owned := s.ownership.Epoch(t.ID); !owned || now != epoch || s.tasks.entries[t.ID] != e || e.stopped != nil {
		s.tasks.Unlock()
		return fmt.Errorf("task %s was %w while it was restored", t.ID, assign.ErrGivenUp)
	}
	load := map[*worker.Worker]int{}
	for _, other := range s.tasks.entries {
		load[other.worker]++
	}
	w := slices.MinFunc(s.workers, func(a, b *worker.Worker) int { return load[a] - load[b] })
	e.worker, e.task = w, t
	if t.State != nil {
		e.database, e.restoring = t.State.Database(), nil
	}
	for i, in := range t.Spec.Inputs {
		s.tasks.routes[partitionKey{in.Topic, in.Partition}] = &route{task: t, input: i, worker: w}
	}
	s.tasks.Unlock()
	if err := w.Adopt(ctx, t); err != nil {
		return err
	}
	_ = failpoint.Hit(ctx, failpoint.AdoptAfter) // the task is the worker's now
	// Under the table's lock: a partition that was revoked and assigned again meanwhile must stay paused until its new task is ready.
	s.tasks.RLock()
	given, stopped := s.tasks.entries[t.ID] != e, e.stopped
	for _, in := range t.Spec.Inputs {
		if r := s.tasks.routes[partitionKey{in.Topic, in.Partition}]; r != nil && r.task == t {
			s.pauses.clear(in.Topic, in.Partition, restoring)
		}
	}
	s.tasks.RUnlock()
	// Who has stopped the task or given it up since it has routes may have asked the worker before it had the task.
	if stopped != nil {
		w.Halt(t, stopped)
	}
	if given {
		if err := w.Release(s.ctx, t); err != nil && s.ctx.Err() == nil {
			s.in.app.log.Warn("a task that was given up while it was opened is not closed", "task", t.ID.String(), "error", err)
		}
	}
	return nil // whatever became of it, the task is the worker's
}

// client is the group client. It exists from the first callback on.
func (s *session) client() *broker.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.group
}

// dispatch hands records to their tasks. It never blocks: between Poll and Release no callback can run.
func (s *session) dispatch(b broker.Batch) {
	s.dispatcher.Began(time.Now())
	s.in.app.metrics.Polled(b.Topic, b.Partition, b.Records)
	s.tasks.RLock()
	r := s.tasks.routes[partitionKey{b.Topic, b.Partition}]
	s.tasks.RUnlock()
	if r == nil {
		return // given up; the next owner, or our next membership, reads them again from the committed offset
	}
	r.task.SetEnd(r.input, b.LastStableOffset)
	waiting, ok := r.task.Enqueue(r.input, b.Records)
	if !ok {
		return
	}
	if waiting > s.in.app.cfg.QueueBytesMax {
		// In this order: a resume that comes between the two finds no reason to clear, and the reading below sees the drained queue.
		s.pauses.set(b.Topic, b.Partition, queueFull)
		if r.task.Waiting(r.input) < s.in.app.cfg.QueueBytesMax/4 {
			s.resume(b.Topic, b.Partition)
		}
	}
	r.worker.Wake()
}

// resume lets a partition be fetched again if its full queue had stopped it.
func (s *session) resume(topic string, partition int32) { s.pauses.clear(topic, partition, queueFull) }

// retrying pauses a task's inputs while it waits long for the next attempt of a record, and resumes them.
func (s *session) retrying(t *task.Task, waits bool) {
	s.tasks.RLock() // a task that was given up meanwhile must not pause the one that follows it
	defer s.tasks.RUnlock()
	for _, in := range t.Spec.Inputs {
		r := s.tasks.routes[partitionKey{in.Topic, in.Partition}]
		switch {
		case r == nil || r.task != t:
		case waits:
			s.pauses.set(in.Topic, in.Partition, retrying)
		default:
			s.pauses.clear(in.Topic, in.Partition, retrying)
		}
	}
}

// ErrIntegrity says that state, offsets and log contradict each other, or that records were deleted before they were processed. Nothing was
// applied that contradicts the log.
var ErrIntegrity = worker.ErrIntegrity

// stopped returns why tasks of the session do not work any more, nil when all of them do.
func (s *session) stopped() error {
	s.tasks.RLock()
	defer s.tasks.RUnlock()
	n, first := 0, error(nil)
	for _, e := range s.tasks.entries {
		if e.stopped != nil {
			n++
			first = e.stopped
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d, one of them because of: %w", ErrStopped, n, len(s.tasks.entries), first)
}

// ErrStopped says that some tasks of the instance had stopped before its end. The reason of one is wrapped with it.
var ErrStopped = errors.New("tasks are stopped")

// ErrAllStopped says that the instance has tasks and none of them can work any more, be it that the last one stopped or that the last one
// that worked has moved to another instance. The reason of one is wrapped with it.
var ErrAllStopped = errors.New("all tasks are stopped")
