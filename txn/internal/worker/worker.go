package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// Config is what a worker needs of its surroundings.
type Config struct {
	// ID numbers the worker in the process; its producers are named after it.
	ID          int
	Cluster     *broker.Cluster
	Coordinator *broker.Coordinator
	Ownership   *assign.Ownership
	// Member reads the membership; it must not block.
	Member func() (id string, generation int32)
	// Resume asks for more records of a partition whose queue has drained; it must not block.
	Resume      func(topic string, partition int32)
	Instance    string
	Incarnation uint32
	Fingerprint [8]byte
	// RoundsTopic takes filler records.
	RoundsTopic string
	// MetadataMax is the longest metadata text that goes into an offset commit.
	MetadataMax int
	Deadlines   Deadlines
	Cadence     Cadence
	// QueueBytesLow is where a paused input is resumed.
	QueueBytesLow int64
	// Stopped is told of a task that stops with a verdict; it must not block.
	Stopped func(id topology.TaskID, why error)
	// Metrics counts what the worker does; nil counts nothing.
	Metrics *metrics.Worker
	Logger  *slog.Logger
}

// Worker runs tasks. Its methods may be called from any goroutine; Run is called once.
type Worker struct {
	cfg   Config
	log   *slog.Logger
	turns [2]*turn

	answers  chan answer
	requests chan request
	wake     chan struct{}
	done     chan struct{}

	// The rest belongs to the goroutine of Run.
	state    protocol.State
	rounds   map[uint64]*round
	open     *round
	tasks    []*task.Task
	leaving  map[*task.Task]request
	stopping bool
	clock    cadence
	slab     slab
	failed   error
	// permanent is a failure that would come back with every new run of the round.
	permanent error
	holdUntil time.Time
	hold      time.Duration
	rotate    int

	stats    Stats
	observed observed
	status   struct {
		sync.Mutex
		tasks map[topology.TaskID]TaskStatus
	}
}

// New returns a worker with its two initialised producers.
func New(cfg Config, producers [2]*broker.Producer) *Worker {
	w := &Worker{
		cfg: cfg, log: cfg.Logger.With("worker", cfg.ID),
		answers: make(chan answer, 8), requests: make(chan request), wake: make(chan struct{}, 1), done: make(chan struct{}),
		state: protocol.New(0), rounds: map[uint64]*round{}, leaving: map[*task.Task]request{},
		clock: cadence{Cadence: cfg.Cadence},
	}
	w.status.tasks = map[topology.TaskID]TaskStatus{}
	for i := range w.turns {
		// A turn gets at most a chunk per stream of its round and one protocol effect at a time.
		w.turns[i] = &turn{w: w, producer: producers[i], commands: make(chan command, 64), log: w.log.With("turn", i)}
	}
	w.nameLoops()
	return w
}

type requestKind uint8

const (
	adopt requestKind = iota
	release
	stop
)

type request struct {
	kind requestKind
	task *task.Task
	id   topology.TaskID
	done chan error
}

// ErrEnded is returned to requests that come after Run has returned.
var ErrEnded = errors.New("the worker has ended")

func (w *Worker) ask(ctx context.Context, r request) error {
	r.done = make(chan error, 1)
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case w.requests <- r:
	case <-w.done:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	gaveUp := ctx.Done()
	if r.kind == adopt {
		gaveUp = nil // answered at once, and it must be known whose the task is
	}
	select {
	case err := <-r.done:
		return err
	case <-w.done:
	case <-gaveUp:
		return ctx.Err()
	}
	select {
	case err := <-r.done: // answered before the end
		return err
	default:
		return ErrEnded
	}
}

// Adopt gives the worker a restored task. On an error the task is still the caller's.
func (w *Worker) Adopt(ctx context.Context, t *task.Task) error {
	return w.ask(ctx, request{kind: adopt, task: t, id: t.ID})
}

// Release takes a task away. It returns when no round in flight holds it any more and its state is closed; its uncommitted work is
// dropped. Where ctx ends first the task is closed later, which is safe: nothing uncommitted is in its store.
func (w *Worker) Release(ctx context.Context, id topology.TaskID) error {
	return w.ask(ctx, request{kind: release, id: id})
}

// Stop commits what is open, closes every task and makes Run return.
func (w *Worker) Stop(ctx context.Context) error { return w.ask(ctx, request{kind: stop}) }

// Wake tells the worker that records were enqueued.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run computes until Stop, until ctx ends (what is open is then abandoned, as by a crash, and that is no error) or until an error that
// the worker cannot handle. When it returns, and when Stop does, every task is closed.
func (w *Worker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var turns sync.WaitGroup
	for _, t := range w.turns {
		turns.Go(func() { t.run(ctx) })
	}
	stopped, err := w.loop(ctx)
	cancel()
	for _, t := range w.turns {
		close(t.commands)
	}
	turns.Wait()
	for _, t := range w.tasks {
		err = errors.Join(err, t.Close())
	}
	for _, r := range w.leaving {
		r.done <- nil
	}
	if stopped != nil {
		stopped <- err
	}
	close(w.done)
	return err
}

// sliceRecords bounds how long the worker computes before it looks at answers and requests again.
const sliceRecords = 256

// loop returns who has asked for the end, if it came by Stop.
func (w *Worker) loop(ctx context.Context) (stopped chan error, err error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		worked := w.slice(time.Now())
		wait := w.maybeDue(time.Now())
		if w.failed != nil {
			return stopped, w.failed
		}
		w.releaseIdle()
		if w.stopping && w.state.Quiet() {
			return stopped, nil
		}
		if worked {
			wait = 0
		}
		timer.Reset(wait)
		w.observed.loop.Waits()
		select {
		case <-ctx.Done():
			return stopped, nil
		case a := <-w.answers:
			w.answered(a)
		case r := <-w.requests:
			if r.kind == stop {
				w.stopping, stopped = true, r.done
			} else {
				w.request(r)
			}
		case <-w.wake:
		case <-timer.C:
		}
	}
}

func (w *Worker) request(r request) {
	switch r.kind {
	case adopt:
		if w.find(r.id) != nil {
			r.done <- fmt.Errorf("task %s is still being released", r.id)
			return
		}
		w.tasks = append(w.tasks, r.task)
		w.publish(r.task)
		r.done <- nil
	case release:
		t := w.find(r.id)
		if t == nil {
			r.done <- nil
			return
		}
		if before, ok := w.leaving[t]; ok {
			before.done <- nil // whoever asked first has stopped waiting, or is told by the other answer
		}
		w.leaving[t] = r
		if w.open != nil && w.open.byTask[t] != nil {
			w.step(protocol.Event{Kind: protocol.Dropped})
		}
	case stop:
	}
}

func (w *Worker) find(id topology.TaskID) *task.Task {
	for _, t := range w.tasks {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// releaseIdle closes the leaving tasks that no round in flight holds.
func (w *Worker) releaseIdle() {
	if len(w.leaving) == 0 {
		return
	}
	for t, r := range w.leaving {
		held := false
		for _, round := range w.rounds {
			held = held || round.byTask[t] != nil
		}
		if held {
			continue
		}
		delete(w.leaving, t)
		for i := range w.tasks {
			if w.tasks[i] == t {
				w.tasks = append(w.tasks[:i], w.tasks[i+1:]...)
				break
			}
		}
		w.status.Lock()
		delete(w.status.tasks, t.ID)
		w.status.Unlock()
		r.done <- t.Close()
	}
}

// compute processes a slice of records if it may, and reports whether it did anything.
func (w *Worker) compute(now time.Time) bool {
	if w.stopping || !w.state.CanCompute() || w.open != nil && w.open.full || now.Before(w.holdUntil) {
		return false
	}
	left := sliceRecords
	for range w.tasks {
		w.rotate = (w.rotate + 1) % len(w.tasks)
		t := w.tasks[w.rotate]
		if _, leaving := w.leaving[t]; leaving || t.Stopped() != nil || now.Before(t.WakeAt()) {
			continue
		}
		t.Pull()
		for left > 0 {
			e, ok := t.Next()
			if !ok {
				break
			}
			left--
			if !w.process(t, e, now) {
				return true
			}
		}
		if t.TookDropped() {
			w.resumeDrained(t)
		}
		if left == 0 {
			break
		}
	}
	return left < sliceRecords
}

// process runs one record and reports whether the next one may follow in this slice.
func (w *Worker) process(t *task.Task, e task.Entry, now time.Time) bool {
	if w.open == nil {
		w.open = newRound(w.state.BackRound)
		w.open.started = now
		w.rounds[w.open.n] = w.open
	}
	r := w.open
	r.held += e.Bytes()
	if e.Record.Attrs.IsControl() {
		r.contribution(t).TookControl(e)
		t.Advance(e, false)
		w.joined()
		return true
	}
	v := t.Process(e)
	w.processed()
	switch v.Action {
	case topology.Accept, topology.DeadLetter:
		c := r.contribution(t)
		c.Took(e, v)
		r.worked = true
		r.add(v.Outputs, &w.slab)
		t.Advance(e, v.Action == topology.Accept)
		r.countState(c)
		w.joined()
		if v.Action == topology.DeadLetter {
			w.log.Warn("record dead-lettered", "task", t.ID.String(), "topic", e.Record.Topic, "partition", e.Record.Partition,
				"offset", e.Record.Offset, "failure", v.Failure)
		}
	case topology.Retry:
		w.stats.Retries.Add(1)
		w.cfg.Metrics.Retried(t.ID, v.Failure.Class)
		w.log.Warn("record will be tried again", "task", t.ID.String(), "topic", e.Record.Topic, "partition", e.Record.Partition,
			"offset", e.Record.Offset, "failure", v.Failure, "after", v.Backoff)
		t.Postpone(e, now, v.Backoff)
		w.due() // never wait inside an open transaction
		return false
	default:
		err := fmt.Errorf("stopped at %s[%d] offset %d: %w", e.Record.Topic, e.Record.Partition, e.Record.Offset, v.Failure)
		w.log.Error("task stopped", "task", t.ID.String(), "error", err)
		t.Stop(e, err)
		w.publish(t)
		w.cfg.Stopped(t.ID, err)
		return false
	}
	return w.afterRecord(r)
}

// afterRecord hands output over and ends rounds that are full.
func (w *Worker) afterRecord(r *round) bool {
	if r.waiting >= w.clock.streamAt() && !w.state.WantStream {
		w.step(protocol.Event{Kind: protocol.Full})
	}
	if r.total >= w.cfg.Cadence.BytesMax || r.state >= w.cfg.Cadence.BytesMax {
		r.full = true
		w.due()
		return false
	}
	return true
}

// joined tells the protocol of a round's first record; every further one changes nothing.
func (w *Worker) joined() {
	if w.state.Back == protocol.Idle {
		w.step(protocol.Event{Kind: protocol.Joined})
	}
}

func (w *Worker) due() {
	if w.open != nil && w.state.Back != protocol.Idle {
		w.step(protocol.Event{Kind: protocol.Due})
	}
}

// maybeDue commits if it is time to, and returns how long the loop may sleep.
func (w *Worker) maybeDue(now time.Time) time.Duration {
	wait := time.Second
	for _, t := range w.tasks {
		if at := t.WakeAt(); !at.IsZero() && t.Stopped() == nil {
			wait = min(wait, max(time.Until(at), time.Millisecond))
		}
	}
	if now.Before(w.holdUntil) {
		wait = min(wait, w.holdUntil.Sub(now)+time.Millisecond)
	}
	if w.open == nil || w.state.CommitDue || w.state.Back == protocol.Idle {
		return wait
	}
	if w.stopping || len(w.leaving) > 0 {
		w.due()
		return wait
	}
	dueIn := w.clock.dueIn(now, w.open, w.idle())
	if dueIn <= 0 {
		w.due()
		return wait
	}
	return min(wait, dueIn)
}

// idle reports whether there is nothing to process right now.
func (w *Worker) idle() bool {
	for _, t := range w.tasks {
		if t.Stopped() != nil || !t.WakeAt().IsZero() {
			continue
		}
		t.Pull()
		if t.Backlog() {
			return false
		}
	}
	return true
}
