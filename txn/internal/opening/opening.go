package opening

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/topics"
	"github.com/onceward/onceward/txn/internal/worker"
)

// Config is what an [Opener] needs of its session.
type Config struct {
	Topology      *topology.Topology
	Subtopologies map[string]graph.Subtopology
	// Mode is that of the session, Modes are those of commits with which it goes on.
	Mode  topology.Mode
	Modes []topology.Mode
	// OrderWaitMax and MaxFutureTimestamp are settings of package txn.
	OrderWaitMax, MaxFutureTimestamp time.Duration
	// Databases changes the options of the databases; nil changes nothing.
	Databases func(*pebblestore.Options)
	// GlobalTable returns the rows of a global table.
	GlobalTable func(store string) state.Bytes

	Cluster   *broker.Cluster
	Starts    *broker.Starts
	Directory *state.Directory
	Shared    *pebblestore.Shared
	Layout    topics.Layout
	Rebuilds  *Rebuilds
	Restorer  *restore.Restorer
	Ownership *assign.Ownership
	Tasks     *dispatch.Dispatcher
	Workers   []*worker.Worker

	// TakeCopy ends the copy of a task that was kept here, and returns its open database; nil if
	// there is none.
	TakeCopy func(id graph.TaskID) state.Database
	// Member reads the membership; it must not block.
	Member func() (id string, generation int32)
	// Begin has the group fetch a partition from an offset.
	Begin func(ctx context.Context, topic string, partition int32, offset int64) error
	// Stopped is told of a task that cannot be opened, Suspended of one that waits for space on the
	// disk. An error of Suspended says that the task is not to be opened any more.
	Stopped   func(id graph.TaskID, e *dispatch.Entry, why error)
	Suspended func(id graph.TaskID, why error) error
	// Opened is called when nothing more is done for the opening of a task.
	Opened func()
	// Abandon ends the session.
	Abandon func(why error)

	Logger     *slog.Logger
	Failpoints failpoint.Set
}

// Opener opens the tasks of one session. Its methods may be called from any goroutine.
type Opener struct {
	cfg Config
	// ctx ends when the session is abandoned.
	ctx context.Context
	// space is held while space is looked for on the disk.
	space sync.Mutex
	// running counts the goroutines that open tasks, order orders those of one task.
	running sync.WaitGroup
	order   openings

	mu      sync.Mutex
	cancels map[graph.TaskID]context.CancelFunc
}

// New returns an opener whose tasks end with ctx.
func New(ctx context.Context, cfg Config) *Opener {
	return &Opener{cfg: cfg, ctx: ctx, cancels: map[graph.TaskID]context.CancelFunc{}}
}

// Start opens a task on a goroutine of its own, after whatever opened it before has ended.
func (o *Opener) Start(id graph.TaskID, e *dispatch.Entry) {
	ctx, cancel := context.WithCancel(o.ctx)
	o.mu.Lock()
	o.cancels[id] = cancel
	o.mu.Unlock()
	before, leave := o.order.enter(id)
	o.running.Go(func() {
		defer leave()
		<-before // whose context has ended, at the latest when the task was given up
		o.open(ctx, id, e)
		o.cfg.Opened()
	})
}

// Opening reports whether a goroutine that opens the task has not ended, also of one that was given
// up. It does not block.
func (o *Opener) Opening(id graph.TaskID) bool { return o.order.open(id) }

// Hold keeps the task from being opened until release is called: its database is being closed.
// Opening reports true meanwhile. release waits for the goroutine that has opened the task before.
func (o *Opener) Hold(id graph.TaskID) (release func()) {
	before, leave := o.order.enter(id)
	return func() {
		<-before
		leave()
	}
}

// Cancel ends the opening of a task that is given up. It does not wait.
func (o *Opener) Cancel(id graph.TaskID) {
	o.mu.Lock()
	cancel := o.cancels[id]
	delete(o.cancels, id)
	o.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// Wait waits until no task is being opened.
func (o *Opener) Wait() { o.running.Wait() }

// open restores a task and gives it to a worker. Every error that is not the task's own fault is
// tried again for as long as the task is ours.
func (o *Opener) open(ctx context.Context, id graph.TaskID, e *dispatch.Entry) {
	pause := backoff.Backoff{Next: 50 * time.Millisecond, Max: time.Second}
	space := o.newSpaceWait()
	for {
		err := o.tryOpen(ctx, id, e)
		var stop *restore.StopError
		switch {
		case err == nil || ctx.Err() != nil || o.cfg.Tasks.IsStopped(e):
			return
		case errors.Is(err, state.ErrFull):
			if o.openWhenSpace(ctx, id, e, &space, err) != nil {
				return
			}
			continue
		case errors.As(err, &stop):
			o.cfg.Logger.Error("task stopped", "task", id.String(), "error", err)
			if stop.Cause == nil || errors.Is(err, restore.ErrNotExact) || errors.Is(err, restore.ErrLostRows) {
				err = fmt.Errorf("%w: %w", worker.ErrIntegrity, err)
			}
			o.cfg.Stopped(id, e, err)
			return
		case errors.Is(err, errNoGraph), broker.Permanent(err):
			o.cfg.Logger.Error("task stopped", "task", id.String(), "error", err)
			o.cfg.Stopped(id, e, err)
			return
		case errors.Is(err, assign.ErrMemberChanged):
			o.cfg.Abandon(err)
			return
		}
		o.cfg.Logger.Warn("opening a task failed and is tried again", "task", id.String(), "error", err, "after", pause.Next)
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

func (o *Opener) tryOpen(ctx context.Context, id graph.TaskID, e *dispatch.Entry) error {
	// The member id is read before anything else, and compared again when the task is ready.
	member, generation := o.cfg.Member()
	if member == "" || generation < 0 {
		return errors.New("the membership is not complete yet")
	}
	epoch, owned := o.cfg.Ownership.Epoch(id)
	if !owned {
		return nil
	}
	if err := o.rebuild(ctx, id, e); err != nil {
		return err
	}
	result, err := o.cfg.Restorer.Restore(ctx, o.request(id, e), &e.Progress)
	if err != nil {
		return err
	}
	t, err := o.newTask(id, result, epoch, member)
	if err != nil {
		if result.Database != nil {
			err = errors.Join(err, result.Database.Close())
		}
		return err
	}
	if err := o.findEnds(ctx, t); err != nil {
		return errors.Join(err, t.Close())
	}
	for _, in := range t.Spec.Inputs {
		if err := o.cfg.Begin(ctx, in.Topic, in.Partition, in.Offset); err != nil {
			return errors.Join(fmt.Errorf("opening task %s: %w", id, err), t.Close())
		}
	}
	if now, _ := o.cfg.Member(); now != member {
		return errors.Join(fmt.Errorf("opening task %s: %w", id, assign.ErrMemberChanged), t.Close())
	}
	if err := o.Adopt(ctx, t, e, epoch); err != nil {
		return errors.Join(err, t.Close())
	}
	return nil
}

// findEnds tells a task of several inputs where they end, so that it need not wait for one that
// holds nothing more.
func (o *Opener) findEnds(ctx context.Context, t *task.Task) error {
	if len(t.Spec.Inputs) < 2 || t.OrderWaitMax == 0 {
		return nil
	}
	for i, in := range t.Spec.Inputs {
		end, err := o.cfg.Cluster.StableEnd(ctx, in.Topic, in.Partition)
		if err != nil {
			return fmt.Errorf("opening task %s: %w", t.ID, err)
		}
		t.SetEnd(i, end)
	}
	return nil
}

// flushBytesFailpoints makes the databases of an application with failpoints write often: otherwise
// nothing would be on the disk when a short life is killed, and every restore would begin at the
// start.
const flushBytesFailpoints = 256

// databaseOptions are those of a task's database.
func (o *Opener) databaseOptions(id graph.TaskID) pebblestore.Options {
	options := o.commonOptions()
	options.Logger = o.cfg.Logger.With("task", id.String())
	return options
}

// openDatabase opens the database of a task at a path.
func (o *Opener) openDatabase(id graph.TaskID, path string) (state.Database, error) {
	options := o.databaseOptions(id)
	options.InMemory = o.cfg.Subtopologies[id.Subtopology].InMemory()
	return pebblestore.Open(path, options)
}

// commonOptions are what all databases of the process have in common.
func (o *Opener) commonOptions() pebblestore.Options {
	options := pebblestore.Options{Shared: o.cfg.Shared}
	if o.cfg.Failpoints.Armed() {
		options.FlushBytes = flushBytesFailpoints
	}
	if change := o.cfg.Databases; change != nil {
		change(&options)
	}
	return options
}

// request describes the task to the restorer.
func (o *Opener) request(id graph.TaskID, e *dispatch.Entry) restore.Request {
	req := o.CopyRequest(id)
	open := req.Open
	req.Open = func() (db state.Database, err error) {
		if db = o.cfg.TakeCopy(id); db == nil {
			db, err = open()
		}
		if err != nil {
			return nil, err
		}
		o.cfg.Tasks.Restoring(e, db)
		return db, nil
	}
	return req
}

// CopyRequest describes a task to the restorer whose database is used by nothing else.
func (o *Opener) CopyRequest(id graph.TaskID) restore.Request {
	req := restore.RequestOf(id, o.cfg.Subtopologies[id.Subtopology], o.cfg.Starts)
	req.Modes = o.cfg.Modes
	req.Open = func() (state.Database, error) {
		path, err := o.cfg.Directory.TaskPath(id.Subtopology, id.Partition)
		if err != nil {
			return nil, err
		}
		return o.openDatabase(id, path)
	}
	req.Remove = func() error { return o.cfg.Directory.RemoveTask(id.Subtopology, id.Partition) }
	return req
}

func (o *Opener) newTask(id graph.TaskID, r restore.Result, epoch uint64, member string) (*task.Task, error) {
	sub := o.cfg.Subtopologies[id.Subtopology]
	spec := task.Spec{
		ID: id, Inputs: r.Positions.Inputs, Committed: r.Positions, Metadata: r.Metadata, Retry: r.Retry,
		Epoch: epoch, Member: member, Mode: o.cfg.Mode,
		OrderWaitMax: max(o.cfg.OrderWaitMax, 0), Held: o.cfg.Tasks.Held(),
	}
	for _, src := range sub.Sources {
		if src.Delay > 0 {
			if spec.Delays == nil {
				spec.Delays = map[string]time.Duration{}
			}
			spec.Delays[src.Topic] = src.Delay
		}
	}
	for _, st := range sub.LostOnRestart() {
		spec.Lost = append(spec.Lost, state.IDOf(st.Name))
	}
	for _, st := range sub.Restored() {
		if st.FromSource != nil {
			input := slices.IndexFunc(spec.Inputs, func(in state.Input) bool { return in.Topic == st.RestoredFrom })
			spec.Tables = append(spec.Tables, task.Table{Store: st.Name, Input: input, Written: st.FromSource.Written})
			continue
		}
		spec.Changelogs = append(spec.Changelogs, task.Changelog{Store: st.Name, Topic: st.ChangelogTopic, Layout: st.Layout})
	}
	var graphState graph.State
	if r.Database != nil {
		st, err := state.NewTask(r.Database, sub.Declarations())
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", id, err)
		}
		spec.State, graphState = st, st
	} else {
		graphState = stateless{}
	}
	layout := o.cfg.Layout
	g, err := o.cfg.Topology.NewGraph(id, graphState, topology.GraphConfig{
		Partitions:      func(topic string) int32 { return layout[topic].Partitions },
		MaxMessageBytes: func(topic string) int32 { return layout[topic].MaxMessageBytes },
		Compacted:       func(topic string) bool { return layout[topic].Compacted },
		Now:             time.Now,
		Mode:            o.cfg.Mode,
		GlobalTable:     o.cfg.GlobalTable,

		MaxFutureTimestamp: o.cfg.MaxFutureTimestamp,
	})
	if err != nil {
		return nil, fmt.Errorf("%w of task %s: %w", errNoGraph, id, err)
	}
	spec.Graph = g
	return task.New(spec), nil
}

// errNoGraph says that a factory of the topology failed, which it would do again.
var errNoGraph = errors.New("making the graph")

// stateless is the state of a task without stores.
type stateless struct{}

func (stateless) Store(string) state.Bytes { return nil }
func (stateless) Mark()                    {}
func (stateless) Revert()                  {}
func (stateless) Savepoint() func()        { return func() {} }

// Adopt gives a task that is open to a worker and lets its partitions be fetched.
func (o *Opener) Adopt(ctx context.Context, t *task.Task, e *dispatch.Entry, epoch uint64) error {
	w, err := o.cfg.Tasks.Adopt(t, e, o.cfg.Workers, func() bool {
		now, owned := o.cfg.Ownership.Epoch(t.ID)
		return owned && now == epoch
	})
	if err != nil {
		return err
	}
	if err := w.Adopt(ctx, t); err != nil {
		return err
	}
	_ = o.cfg.Failpoints.Hit(ctx, failpoint.AdoptAfter) // the task is the worker's now
	given, stopped := o.cfg.Tasks.Ready(t, e)
	if stopped != nil {
		w.Halt(t, stopped)
	}
	if given {
		closing, err := w.Release(o.ctx, t)
		if err != nil && o.ctx.Err() == nil {
			o.cfg.Logger.Warn("a task that was given up while it was opened is not closed", "task", t.ID.String(), "error", err)
		}
		if err == nil {
			closing.Wait() // the next opening of the task waits for this one
		}
	}
	return nil // whatever became of it, the task is the worker's
}
