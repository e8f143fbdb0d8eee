package task

import (
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
