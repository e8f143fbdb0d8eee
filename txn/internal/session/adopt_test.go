package session

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/opening"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/worker"
)

// adopting is a session without a cluster whose worker does not run yet, and whose only task is on
// its way to the worker.
type adopting struct {
	s    *Session
	task *task.Task
	e    *dispatch.Entry
	// done has what adopt returns, run lets the worker work.
	done chan error
	run  func()
}

// newAdopting must be called in a bubble.
func newAdopting(t *testing.T) *adopting {
	t.Helper()
	b := topology.NewBuilder("adopting")
	topology.From(b, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	sub := top.Subtopologies()[0]
	s := &Session{
		cfg:       Config{Topology: top, Logger: log, Self: assign.NewSelf(assign.Process{})},
		subs:      map[string]graph.Subtopology{sub.Name: sub},
		tasks:     noTasks(),
		copies:    noCopies(),
		ownership: assign.New([]assign.Subtopology{{Name: sub.Name, Sources: []string{"in"}}}),
	}
	s.ctx, s.cancel = context.WithCancelCause(t.Context())
	s.poll, s.endPoll = context.WithCancelCause(s.ctx)
	w := worker.New(worker.Config{
		Logger: log, Stopped: s.stoppedByWorker, Resume: s.tasks.Resume, QueueBytesLow: s.tasks.Low, Budget: worker.NewBudget(0, nil),
	}, [2]*broker.Producer{broker.NewProducer(broker.Config{}, "a", 0), broker.NewProducer(broker.Config{}, "b", 0)})
	s.workers = []*worker.Worker{w}
	s.opener = opening.New(s.ctx, opening.Config{Logger: log, Ownership: s.ownership, Tasks: s.tasks, Workers: s.workers})
	id := s.ownership.Add(map[string][]int32{"in": {0}})[0]
	s.tasks.Assigned(map[string][]int32{"in": {0}})
	g, err := top.NewGraph(id, nil, topology.GraphConfig{Partitions: func(string) int32 { return 1 }, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	a := &adopting{s: s, e: s.tasks.Enter(id), done: make(chan error, 1)}
	a.task = task.New(task.Spec{ID: id, Graph: g, Inputs: []state.Input{{Topic: "in", StreamTime: state.NoTime}}})
	epoch, _ := s.ownership.Epoch(id)
	// The context of the adoption does not end here: an adoption may be sent at the same moment as
	// its context ends.
	go func() { a.done <- s.opener.Adopt(t.Context(), a.task, a.e, epoch) }()
	synctest.Wait()
	if len(s.tasks.Inputs()) == 0 {
		t.Fatal("the task has no route")
	}
	ended := make(chan error, 1)
	a.run = func() { go func() { ended <- w.Run(s.ctx) }() }
	t.Cleanup(func() {
		s.cancel(nil)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return a
}

// TestStoppedWhileAdopted: a task that cannot be fetched, and is just on its way to its worker, is
// stopped there as well. Otherwise it would count as stopped and go on with its punctuations.
func TestStoppedWhileAdopted(t *testing.T) {
	for range 20 { // what the worker takes first is left to chance
		virtual.Test(t, func(t *testing.T) {
			a := newAdopting(t)
			a.s.haltTask(a.task.ID, errors.New("out of range"))
			a.run()
			if err := <-a.done; err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if a.s.workers[0].Tasks()[a.task.ID].Stopped == nil {
				t.Fatal("the worker does not know that the task is stopped")
			}
			if status := a.s.Tasks()[0]; status.Stopped == nil || status.Stopped.Error() != "out of range" {
				t.Fatalf("the task is stopped because of %v", status.Stopped)
			}
		})
	}
}

// TestGivenUpWhileAdopted: a task that is given up while it is on its way to its worker does not
// stay there.
func TestGivenUpWhileAdopted(t *testing.T) {
	for range 20 {
		virtual.Test(t, func(t *testing.T) {
			a := newAdopting(t)
			gone := make(chan struct{})
			go func() { a.s.giveUp(t.Context(), map[string][]int32{"in": {0}}); close(gone) }()
			synctest.Wait()
			if n := len(a.s.tasks.Tasks()); n != 0 {
				t.Fatalf("%d tasks are not given up", n)
			}
			a.run()
			<-gone
			<-a.done // an error is as good as none
			synctest.Wait()
			if n := len(a.s.workers[0].Tasks()); n != 0 {
				t.Errorf("the worker has %d tasks that were given up", n)
			}
		})
	}
}
