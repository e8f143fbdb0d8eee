package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/waits"
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
	// Budget is shared by the workers of the process.
	Budget *Budget
	// QueueBytesLow is where a paused input is resumed, now; it must not block.
	QueueBytesLow func() int64
	// Stopped is told of a task that stops by itself, which may have been given up meanwhile; it
	// must not block.
	Stopped func(t *task.Task, why error)
	// Retrying is told when a task begins to wait long for the next attempt of a record, and when
	// it goes on; it must not block.
	Retrying func(t *task.Task, waits bool)
	// Metrics counts what the worker does; nil counts nothing.
	Metrics *metrics.Worker
	Logger  *slog.Logger
	// Settle settles a producer after a round has failed. ErrReopen in its error says that the
	// worker must not go on with the producer.
	Settle func(ctx context.Context, p *broker.Producer) error
	// Waits reports for which open transactions the worker waits; nil reports nothing.
	Waits *waits.Waits
	// Failpoints are hit by the worker; the zero value is none.
	Failpoints failpoint.Set
}

// Worker runs tasks. Its methods may be called from any goroutine; Run is called once.
type Worker struct {
	cfg        Config
	log        *slog.Logger
	committers [2]*committer

	answers  chan answer
	requests chan request
	wake     chan struct{}
	// over is closed when nothing more is processed or committed, and done when every task is closed
	// too.
	over, done chan struct{}
	// closers are the goroutines that close tasks which were released, one after the other. Run also
	// closes tasks at its end, meanwhile.
	closers sync.WaitGroup
	// mail is what is asked for without waiting until the worker has time; wake tells of it.
	mail struct {
		sync.Mutex
		halts    []halted
		releases []request
	}

	// The rest belongs to the goroutine of Run.
	state   protocol.State
	rounds  map[uint64]*round
	open    *round
	tasks   []*task.Task
	leaving map[*task.Task]request
	// lastClosing is closed when the last of closers is done, nil if there was none.
	lastClosing chan struct{}
	stopping    bool
	clock       cadence
	spare       spare
	alarm       alarm
	failed      error
	// permanent is a failure that would come back with every new run of the round.
	permanent error
	holdUntil time.Time
	hold      time.Duration
	rotate    int
	isolation isolation
	pace      pace
	notices   notices

	stats    Stats
	observed observed
	status   struct {
		sync.Mutex
		tasks map[graph.TaskID]TaskStatus
	}
}

// halted is a task that another goroutine wants to stop.
type halted struct {
	task *task.Task
	why  error
}

// New returns a worker with its two initialised producers.
func New(cfg Config, producers [2]*broker.Producer) *Worker {
	w := &Worker{
		cfg: cfg, log: cfg.Logger.With("worker", cfg.ID),
		answers: make(chan answer, 8), requests: make(chan request), wake: make(chan struct{}, 1),
		over: make(chan struct{}), done: make(chan struct{}),
		state: protocol.New(0), rounds: map[uint64]*round{}, leaving: map[*task.Task]request{},
		clock: cadence{Cadence: cfg.Cadence},
	}
	w.status.tasks = map[graph.TaskID]TaskStatus{}
	w.notices = newNotices(w.log)
	for i := range w.committers {
		// A committer gets at most a chunk per stream of its round and one protocol effect at a
		// time.
		w.committers[i] = &committer{w: w, producer: producers[i], commands: make(chan command, 64), log: w.log.With("committer", i)}
	}
	w.nameLoops()
	return w
}

type requestKind uint8

const (
	adopt requestKind = iota
	stop
)

type request struct {
	kind requestKind
	task *task.Task
	done chan error
	// closed are closed when the task of a release is closed; none for other requests.
	closed []chan struct{}
}

// ErrEnded is returned to requests that come after the end of the work.
var ErrEnded = errors.New("the worker has ended")

func (w *Worker) ask(ctx context.Context, r request) error {
	r.done = make(chan error, 1)
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case w.requests <- r:
	case <-w.over:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.kind == adopt {
		ctx = context.WithoutCancel(ctx) // answered at once, and it must be known whose the task is
	}
	return w.answer(ctx, r)
}

// answer waits for what becomes of a request that the worker has, or will find.
func (w *Worker) answer(ctx context.Context, r request) error {
	select {
	case err := <-r.done:
		return err
	case <-w.over:
	case <-ctx.Done():
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
	return w.ask(ctx, request{kind: adopt, task: t})
}

// Release takes a task away. It returns when no round in flight holds the task any more; its
// uncommitted work is dropped. Then another process may go on with it. The state is closed meanwhile,
// which writes to the disk what is in memory: see [Closing]. Where ctx ends first the task is
// released later, which is safe: nothing uncommitted is in its store. The worker learns of it in any
// case, however long it is busy: a task that it kept would make each of its rounds be refused.
func (w *Worker) Release(ctx context.Context, t *task.Task) (Closing, error) {
	closed := make(chan struct{})
	r := request{task: t, done: make(chan error, 1), closed: []chan struct{}{closed}}
	w.mail.Lock()
	w.mail.releases = append(w.mail.releases, r)
	w.mail.Unlock()
	w.Wake()
	return Closing{closed, w.done}, w.answer(ctx, r)
}

// Closing is the end of a task that was released.
type Closing struct{ closed, done <-chan struct{} }

// Wait waits until the state of the task is closed, so that it may be opened again.
func (c Closing) Wait() {
	select {
	case <-c.closed:
	case <-c.done:
	}
}

// Halt makes a task do nothing more, as if it had stopped by itself, except that Stopped is not
// called. Its part of the open round still commits. Halt does not wait for the worker.
func (w *Worker) Halt(t *task.Task, why error) {
	w.mail.Lock()
	w.mail.halts = append(w.mail.halts, halted{t, why})
	w.mail.Unlock()
	w.Wake()
}

// takeMail does what Halt and Release have asked for.
func (w *Worker) takeMail() {
	w.mail.Lock()
	halts, releases := w.mail.halts, w.mail.releases
	w.mail.halts, w.mail.releases = nil, nil
	w.mail.Unlock()
	for _, h := range halts {
		if w.find(h.task.ID) == h.task {
			h.task.Halt(h.why)
			w.isolation.leave(h.task)
			w.publish(h.task)
		}
	}
	for _, r := range releases {
		w.release(r)
	}
}

// Stop commits what is open. When it returns, nothing is left that another process would have to wait
// for. Run closes every task and returns.
func (w *Worker) Stop(ctx context.Context) error { return w.ask(ctx, request{kind: stop}) }

// Wake tells the worker that records were enqueued.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run computes until Stop, until ctx ends (what is open is then abandoned, as by a crash, and that
// is no error) or until an error that the worker cannot handle. When it returns, every task is
// closed.
func (w *Worker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var committers sync.WaitGroup
	for _, t := range w.committers {
		committers.Go(func() { t.run(ctx) })
	}
	stopped, err := w.loop(ctx)
	w.notices.end()
	cancel()
	for _, t := range w.committers {
		close(t.commands)
	}
	committers.Wait()
	for _, r := range w.leaving {
		r.done <- nil
	}
	if stopped != nil {
		stopped <- err
	}
	close(w.over)
	for _, t := range w.tasks {
		err = errors.Join(err, w.closeTask(t))
	}
	w.closers.Wait()
	close(w.done)
	return err
}

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
		// An answer goes before everything else that is ready: the next slice may be a record that
		// takes as long as it likes, while the transaction that the answer belongs to is open.
		select {
		case a := <-w.answers:
			w.answered(a)
			continue
		default:
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
				w.adopt(r)
			}
		case <-w.wake:
			w.takeMail()
		case <-timer.C:
		}
	}
}

// adopt takes a task over, unless its predecessor is still here.
func (w *Worker) adopt(r request) {
	if w.find(r.task.ID) != nil {
		r.done <- fmt.Errorf("task %s is still being released", r.task.ID)
		return
	}
	w.tasks = append(w.tasks, r.task)
	w.publish(r.task)
	r.done <- nil
}

// release lets a task go. The task is not there if its adoption has failed, or is still to come:
// then the adoption sees that the task was given up.
func (w *Worker) release(r request) {
	if w.find(r.task.ID) != r.task {
		r.done <- nil
		w.close(nil, r) // after a closing that is under way
		return
	}
	if before, ok := w.leaving[r.task]; ok {
		before.done <- nil // the first caller has stopped waiting, or gets the other answer
		r.closed = append(before.closed, r.closed...)
	}
	w.leaving[r.task] = r
	if w.open != nil && w.open.byTask[r.task] != nil {
		w.step(protocol.Event{Kind: protocol.Dropped})
	}
}

func (w *Worker) find(id graph.TaskID) *task.Task {
	for _, t := range w.tasks {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// releaseIdle lets the leaving tasks go that no round in flight holds. They are closed on a goroutine
// of their own: the other tasks of the worker, and the group, do not wait for the disk.
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
		w.isolation.leave(t)
		delete(w.isolation.cleared, t)
		for i := range w.tasks {
			if w.tasks[i] == t {
				w.tasks = append(w.tasks[:i], w.tasks[i+1:]...)
				break
			}
		}
		w.status.Lock()
		delete(w.status.tasks, t.ID)
		w.status.Unlock()
		_ = w.cfg.Failpoints.Hit(context.Background(), failpoint.ReleaseBefore) // the task is closed whatever happens
		t.DropQueue()                                                           // its memory is free for other tasks before the disk has its turn
		r.done <- nil
		w.close(t, r)
	}
}

// close closes a task that was released, nil for none, after all that were released before. Then it
// tells who waits for that. It belongs to the goroutine of Run, which gives each closing its place.
func (w *Worker) close(t *task.Task, r request) {
	before, closed := w.lastClosing, make(chan struct{})
	w.lastClosing = closed
	w.closers.Go(func() {
		defer close(closed)
		if before != nil {
			<-before
		}
		if t != nil {
			if err := w.closeTask(t); err != nil {
				w.log.Warn("a task that was given up is not closed in order", "task", t.ID.String(), "error", err)
			}
		}
		for _, told := range r.closed {
			close(told)
		}
	})
}
