package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
)

// open restores a task and gives it to a worker. Whatever goes wrong and is not the task's own fault is tried again for as long as
// the task is ours.
func (s *Session) open(ctx context.Context, id topology.TaskID, e *dispatch.Entry) {
	pause := backoff.Backoff{Next: 50 * time.Millisecond, Max: time.Second}
	space := s.newSpaceWait()
	for {
		err := s.tryOpen(ctx, id, e)
		var stop *restore.StopError
		switch {
		case err == nil || ctx.Err() != nil || s.tasks.IsStopped(e):
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

func (s *Session) tryOpen(ctx context.Context, id topology.TaskID, e *dispatch.Entry) error {
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
	result, err := s.restorer.Restore(ctx, s.request(id, e), &e.Progress)
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
	for _, in := range t.Spec.Inputs {
		if err := s.client().Begin(ctx, in.Topic, in.Partition, in.Offset); err != nil {
			return errors.Join(fmt.Errorf("opening task %s: %w", id, err), t.Close())
		}
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
func (s *Session) findEnds(ctx context.Context, t *task.Task) error {
	if len(t.Spec.Inputs) < 2 || t.OrderWaitMax == 0 {
		return nil
	}
	for i, in := range t.Spec.Inputs {
		end, err := s.cfg.Cluster.StableEnd(ctx, in.Topic, in.Partition)
		if err != nil {
			return fmt.Errorf("opening task %s: %w", t.ID, err)
		}
		t.SetEnd(i, end)
	}
	return nil
}

// flushBytesFailpoints makes the databases of an application with failpoints write often: otherwise nothing would be on the disk when a short life
// is killed, and every restore would begin at the start.
const flushBytesFailpoints = 256

// databaseOptions are those of a task's database.
func (s *Session) databaseOptions(id topology.TaskID) pebblestore.Options {
	o := s.commonOptions()
	o.Logger = s.cfg.Logger.With("task", id.String())
	return o
}

// commonOptions are what all databases of the process have in common.
func (s *Session) commonOptions() pebblestore.Options {
	o := pebblestore.Options{Shared: s.cfg.Shared}
	if s.cfg.Failpoints.Armed() {
		o.FlushBytes = flushBytesFailpoints
	}
	if change := s.cfg.Databases; change != nil {
		change(&o)
	}
	return o
}

// request describes the task to the restorer.
func (s *Session) request(id topology.TaskID, e *dispatch.Entry) restore.Request {
	req := restore.RequestOf(id, s.subs[id.Subtopology], s.cfg.Starts)
	req.Modes = s.cfg.Modes
	req.Open = func() (state.Database, error) {
		path, err := s.cfg.Directory.TaskPath(id.Subtopology, id.Partition)
		if err != nil {
			return nil, err
		}
		db, err := pebblestore.Open(path, s.databaseOptions(id))
		if err != nil {
			return nil, err
		}
		s.tasks.Restoring(e, db)
		return db, nil
	}
	req.Remove = func() error { return s.cfg.Directory.RemoveTask(id.Subtopology, id.Partition) }
	return req
}

func (s *Session) newTask(id topology.TaskID, r restore.Result, epoch uint64, member string) (*task.Task, error) {
	sub := s.subs[id.Subtopology]
	spec := task.Spec{
		ID: id, Inputs: r.Positions.Inputs, Committed: r.Positions, Metadata: r.Metadata, Retry: r.Retry,
		Epoch: epoch, Member: member, Mode: s.cfg.Mode,
		OrderWaitMax: max(s.cfg.OrderWaitMax, 0), Held: s.tasks.Held(),
	}
	for _, src := range sub.Sources {
		if src.Delay > 0 {
			if spec.Delays == nil {
				spec.Delays = map[string]time.Duration{}
			}
			spec.Delays[src.Topic] = src.Delay
		}
	}
	for _, st := range sub.Stores {
		if st.FromSource != nil {
			input := slices.IndexFunc(spec.Inputs, func(in state.Input) bool { return in.Topic == st.RestoredFrom })
			spec.Tables = append(spec.Tables, task.Table{Store: st.Name, Input: input, Written: st.FromSource.Written})
			continue
		}
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
	layout := s.cfg.Layout
	graph, err := s.cfg.Topology.NewGraph(id, graphState, topology.GraphConfig{
		Partitions:      func(topic string) int32 { return layout[topic].Partitions },
		MaxMessageBytes: func(topic string) int32 { return layout[topic].MaxMessageBytes },
		Compacted:       func(topic string) bool { return layout[topic].Compacted },
		Now:             time.Now,
		Mode:            s.cfg.Mode,

		MaxFutureTimestamp: s.cfg.MaxFutureTimestamp,
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
func (stateless) Savepoint() func()        { return func() {} }

// adopt gives the task to a worker and lets its partitions be fetched.
func (s *Session) adopt(ctx context.Context, t *task.Task, e *dispatch.Entry, epoch uint64) error {
	w, err := s.tasks.Adopt(t, e, s.workers, func() bool {
		now, owned := s.ownership.Epoch(t.ID)
		return owned && now == epoch
	})
	if err != nil {
		return err
	}
	if err := w.Adopt(ctx, t); err != nil {
		return err
	}
	_ = s.cfg.Failpoints.Hit(ctx, failpoint.AdoptAfter) // the task is the worker's now
	given, stopped := s.tasks.Ready(t, e)
	if stopped != nil {
		w.Halt(t, stopped)
	}
	if given {
		if err := w.Release(s.ctx, t); err != nil && s.ctx.Err() == nil {
			s.cfg.Logger.Warn("a task that was given up while it was opened is not closed", "task", t.ID.String(), "error", err)
		}
	}
	return nil // whatever became of it, the task is the worker's
}
