package task

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
)

// A task that is behind never has an empty queue: what was taken must not stay in it for that.
func TestQueueThatNeverDrainsKeepsItsSize(t *testing.T) {
	q := newQueue([]state.Input{{Topic: "in"}}, 0)
	const batch, batches = 100, 1_000
	var offset int64
	records := func() []*broker.Record {
		out := make([]*broker.Record, batch)
		for i := range out {
			out[i] = &broker.Record{Topic: "in", Offset: offset}
			offset++
		}
		return out
	}
	give := func() {
		q.enqueue(0, records())
		q.pull()
	}
	give()
	for want := int64(0); want < batch*batches; want++ {
		if want%batch == batch/2 { // half of the last batch is still there
			give()
		}
		e, _, ok := q.next(time.Now())
		if !ok || e.Record.Offset != want {
			t.Fatalf("next returned offset %d, %v; want %d", e.Record.Offset, ok, want)
		}
	}
	if n := cap(q.inputs[0].records); n > 16*batch {
		t.Errorf("the queue keeps room for %d records, and never held more than %d", n, 2*batch)
	}
}

// The records in the queues of all tasks are counted once, and not any more when the queues are
// closed, whatever is still in flight then.
func TestHeldByAllTasks(t *testing.T) {
	var held atomic.Int64
	tasks := make([]*Task, 2)
	for i := range tasks {
		tasks[i] = New(Spec{Inputs: []state.Input{{Topic: "in"}, {Topic: "too"}}, Held: &held})
	}
	records := []*broker.Record{{Topic: "in", Value: make([]byte, 1000)}, {Topic: "in", Offset: 1, Value: make([]byte, 500)}}
	expect := func(what string) {
		t.Helper()
		var sum int64
		for _, of := range tasks {
			sum += of.Waiting(0) + of.Waiting(1)
		}
		if got := held.Load(); got != sum || got < 0 {
			t.Fatalf("%s: %d bytes are counted, and held are %d", what, got, sum)
		}
	}
	for input := range 2 {
		for _, of := range tasks {
			if _, ok := of.Enqueue(input, records); !ok {
				t.Fatal("a task is closed")
			}
		}
	}
	expect("after records came")
	tasks[0].Release(0, recordBytes(records[0]))
	expect("after a round")
	for range 2 { // closed twice is closed once
		if err := tasks[0].Close(); err != nil {
			t.Fatal(err)
		}
	}
	tasks[0].Release(1, recordBytes(records[0]))
	tasks = tasks[1:]
	expect("after a task was closed")
}
