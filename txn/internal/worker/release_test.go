package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/task"
)

// quietTask is a task that hands every record to f and writes nothing, so that its worker needs no
// broker.
func quietTask(t *testing.T, f func()) *task.Task {
	t.Helper()
	b := topology.NewBuilder("quiet")
	topology.From(b, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).
		Filter("none", func(topology.Record[[]byte, []byte]) (bool, error) { f(); return false, nil }).
		Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	id := graph.TaskID{Subtopology: top.Subtopologies()[0].Name}
	g, err := top.NewGraph(id, nil, topology.GraphConfig{Partitions: func(string) int32 { return 1 }, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return task.New(task.Spec{ID: id, Graph: g, Inputs: []state.Input{{Topic: "in", StreamTime: state.NoTime}}})
}

// quietWorker runs a worker until the test ends. It seals no round within an hour.
func quietWorker(t *testing.T) *Worker {
	t.Helper()
	w := New(Config{
		Logger: slog.New(slog.DiscardHandler), Resume: func(string, int32) {}, QueueBytesLow: func() int64 { return 1 << 20 },
		Cadence: Cadence{IntervalMax: time.Hour, BytesMax: 1 << 20, HeldBytesMax: func() int64 { return 1 << 20 }, EmptyMax: time.Hour},
		Budget:  NewBudget(0, nil),
	}, [2]*broker.Producer{broker.NewProducer(broker.Config{}, "a", 0), broker.NewProducer(broker.Config{}, "b", 0)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// slowToClose is a database whose Close waits.
type slowToClose struct {
	state.Database
	closing chan<- struct{}
	goOn    <-chan struct{}
}

func (d slowToClose) Close() error {
	d.closing <- struct{}{}
	<-d.goOn
	return d.Database.Close()
}

// slowTask is a quietTask with such a database.
func slowTask(t *testing.T, closing chan<- struct{}, goOn <-chan struct{}) *task.Task {
	t.Helper()
	slow := quietTask(t, func() {})
	var err error
	if slow.State, err = state.NewTask(slowToClose{memstore.New(), closing, goOn}, nil); err != nil {
		t.Fatal(err)
	}
	return slow
}

// TestReleaseDoesNotWaitForTheDisk: while the database of a task that was released is being closed,
// Release has returned, and another task of the worker processes records. Only the wait for the
// closing comes later.
func TestReleaseDoesNotWaitForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing, goOn := make(chan struct{}), make(chan struct{})
		slow := slowTask(t, closing, goOn)
		slow.ID.Partition = 1
		processed := make(chan struct{})
		other := quietTask(t, func() { close(processed) })
		w := quietWorker(t)
		for _, tk := range []*task.Task{slow, other} {
			if err := w.Adopt(t.Context(), tk); err != nil {
				t.Fatal(err)
			}
		}
		end, err := w.Release(t.Context(), slow)
		if err != nil {
			t.Fatal(err)
		}
		<-closing
		closed := make(chan struct{})
		go func() { end.Wait(); close(closed) }()
		other.Enqueue(0, []*broker.Record{{Topic: "in", Timestamp: time.Now()}})
		w.Wake()
		<-processed
		again, err := w.Release(t.Context(), slow)
		if err != nil {
			t.Errorf("a second release returned %v", err)
		}
		synctest.Wait()
		select {
		case <-closed:
			t.Error("the closing is over before the database is closed")
		case <-w.over:
			t.Error("the worker has ended")
		default:
		}
		close(goOn)
		<-closed
		again.Wait()
	})
}

// TestClosingsAreInOrder: a second release of a task whose database is being closed is over after the
// first.
func TestClosingsAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			closing, goOn := make(chan struct{}, 1), make(chan struct{})
			slow := slowTask(t, closing, goOn)
			w := &Worker{}
			first, second := request{task: slow, closed: []chan struct{}{make(chan struct{})}}, request{closed: []chan struct{}{make(chan struct{})}}
			w.close(slow, first)
			w.close(nil, second) // as release does where the task is gone
			synctest.Wait()
			select {
			case <-second.closed[0]:
				t.Error("the second closing is over before the database is closed")
			default:
			}
			close(goOn)
			<-first.closed[0]
			<-second.closed[0]
			w.closers.Wait()
		}
	})
}

// TestReleaseFreesTheQueue: the memory of a task that was released is free while the database of
// another one is still being closed.
func TestReleaseFreesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing, goOn := make(chan struct{}, 1), make(chan struct{})
		w := &Worker{leaving: map[*task.Task]request{}}
		w.close(slowTask(t, closing, goOn), request{})
		<-closing
		var held atomic.Int64
		tk := task.New(task.Spec{ID: graph.TaskID{Subtopology: "in"}, Inputs: []state.Input{{Topic: "in"}}, Held: &held})
		tk.Enqueue(0, []*broker.Record{{Topic: "in", Timestamp: time.Now()}})
		if held.Load() == 0 {
			t.Fatal("nothing is queued: the test tests nothing")
		}
		r := request{task: tk, done: make(chan error, 1)}
		w.tasks, w.leaving[tk] = []*task.Task{tk}, r
		w.releaseIdle()
		<-r.done
		if n := held.Load(); n != 0 {
			t.Errorf("the released task holds %d bytes", n)
		}
		close(goOn)
		w.closers.Wait()
	})
}

// TestReleaseReachesBusyWorker: a worker that is inside user code for longer than a revoke may wait
// lets the task go as soon as it can. Otherwise it would keep a task that it must not commit, and
// every round with it would be refused for ever.
func TestReleaseReachesBusyWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := quietWorker(t)
		inside, leave := make(chan struct{}), make(chan struct{})
		tk := quietTask(t, func() { close(inside); <-leave })
		if err := w.Adopt(t.Context(), tk); err != nil {
			t.Fatal(err)
		}
		tk.Enqueue(0, []*broker.Record{{Topic: "in", Timestamp: time.Now()}})
		w.Wake()
		<-inside
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.Release(ctx, tk); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Release returned %v", err)
		}
		close(leave)
		synctest.Wait()
		if len(w.Tasks()) > 0 {
			t.Error("the worker keeps the task")
		}
	})
}
