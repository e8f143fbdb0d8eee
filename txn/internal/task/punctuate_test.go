package task

import (
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// ticking opens a task without stores whose punctuation by the wall clock notes the stream time
// that it sees.
func ticking(t *testing.T, made time.Time, seen *[]int64) *Task {
	t.Helper()
	b := topology.NewBuilder("ticking")
	n := topology.Stateful(topology.From(b, topology.Topic("in", schemas.Bytes(), schemas.Bytes())), "tick")
	n.Process(func(s *topology.Setup) (topology.Handler[[]byte, []byte], error) {
		s.OnWallClock(time.Second, func(c *topology.Context, _ time.Time) error {
			*seen = append(*seen, c.StreamTime())
			return nil
		})
		return func(*topology.Context, topology.Record[[]byte, []byte]) error { return nil }, nil
	})
	return stateless(t, b, made, "in")
}

// stateless opens the task of the first subtopology, which has no store, with nothing read of its
// inputs.
func stateless(t *testing.T, b *topology.Builder, now time.Time, inputs ...string) *Task {
	t.Helper()
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	id := graph.TaskID{Subtopology: top.Subtopologies()[0].Name}
	g, err := top.NewGraph(id, nil, topology.GraphConfig{
		Partitions: func(string) int32 { return 1 }, Now: func() time.Time { return now }, MaxFutureTimestamp: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{ID: id, Graph: g}
	for _, topic := range inputs {
		spec.Inputs = append(spec.Inputs, state.Input{Topic: topic, StreamTime: state.NoTime})
	}
	return New(spec)
}

// TestPunctuationSeesTheRecordsBeforeIt: what is run again comes before a punctuation that is due,
// so its records have moved stream time when the punctuation runs. Stream time never goes back for
// user code.
func TestPunctuationSeesTheRecordsBeforeIt(t *testing.T) {
	var seen []int64
	task := ticking(t, epoch, &seen)
	r := &broker.Record{Topic: "in", Timestamp: epoch}
	task.PutBack([]Entry{{Input: 0, Record: r}}) // as after an abort
	task.Punctuate(epoch.Add(time.Second))
	for range 2 {
		e, ok := task.Next(epoch)
		if !ok {
			t.Fatal("there is no entry")
		}
		v := task.Process(e)
		if v.Action != graph.Accept {
			t.Fatal(v.Failure)
		}
		task.Advance(e, v.EventTime)
	}
	if want := []int64{epoch.UnixMilli()}; !slices.Equal(seen, want) {
		t.Errorf("the punctuation sees the stream times %v, want %v", seen, want)
	}
}

// TestStallFiresOnce: a task that may not work for a while, say because another one is looked at,
// has one firing due afterwards.
func TestStallFiresOnce(t *testing.T) {
	var seen []int64
	task := ticking(t, epoch, &seen)
	for i := range 10 {
		task.Punctuate(epoch.Add(time.Duration(i) * time.Second)) // and nothing is taken
	}
	fired := 0
	for _, ok := task.Next(epoch); ok; _, ok = task.Next(epoch) {
		fired++
	}
	if fired != 1 {
		t.Errorf("%d firings are due after a stall, want 1", fired)
	}
}

// TestPauseOfPunctuation: an abort puts entries before a punctuation that waits for its next try.
// They neither wait with it nor end its pause, even if they are punctuations themselves, as the
// release of a parked record is.
func TestPauseOfPunctuation(t *testing.T) {
	var seen []int64
	task := ticking(t, epoch, &seen)
	task.Punctuate(epoch.Add(time.Second))
	failed, ok := task.Next(epoch)
	if !ok {
		t.Fatal("nothing is due")
	}
	task.Postpone(failed, epoch, time.Hour)
	task.PutBack([]Entry{{Input: -1, Punctuation: &topology.Punctuation{At: epoch}}})
	if at := task.WakeAt(); !at.IsZero() {
		t.Errorf("what comes before it waits until %s", at)
	}
	e, ok := task.Next(epoch)
	if !ok || !e.Punctuation.At.Equal(epoch) {
		t.Fatalf("%s comes first", e)
	}
	task.Advance(e, state.NoTime)
	if at := task.WakeAt(); !at.Equal(epoch.Add(time.Hour)) {
		t.Errorf("it waits until %s, want an hour", at)
	}
}
