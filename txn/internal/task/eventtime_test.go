package task

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// TestEventTime: an input whose source has an EventTime takes its turn by that, and moves the
// stream time by it. The function is asked once for the turn of a record, and once when it is
// processed.
func TestEventTime(t *testing.T) {
	calls := 0
	b := topology.NewBuilder("timed")
	plain := topology.Topic("plain", schemas.Bytes(), schemas.Int64())
	timed := topology.Topic("timed", schemas.Bytes(), schemas.Int64())
	topology.From(b, plain).Merge("both", topology.From(b, timed, topology.EventTime(
		func(r topology.Record[[]byte, int64]) (time.Time, error) {
			calls++
			return time.UnixMilli(r.Value), nil
		})))
	task := stateless(t, b, epoch, "plain", "timed")
	give := func(input int, topic string, offset, timestamp, value int64) {
		r := &broker.Record{
			Topic: topic, Offset: offset, Timestamp: time.UnixMilli(timestamp), Value: binary.BigEndian.AppendUint64(nil, uint64(value)),
		}
		if _, ok := task.Enqueue(input, []*broker.Record{r}); !ok {
			t.Fatal("the task is closed")
		}
	}
	give(0, "plain", 0, 10, 0)
	give(0, "plain", 1, 30, 0)
	give(1, "timed", 0, 99, 20)
	give(1, "timed", 1, 1, 40)
	task.Pull()
	var order []string
	for e, ok := task.Next(epoch); ok; e, ok = task.Next(epoch) {
		v := task.Process(e)
		if v.Action != graph.Accept {
			t.Fatal(v.Failure)
		}
		task.Advance(e, v.EventTime)
		order = append(order, e.String())
	}
	want := []string{"plain[0] offset 0", "timed[0] offset 0", "plain[0] offset 1", "timed[0] offset 1"}
	if !slices.Equal(order, want) {
		t.Errorf("the records are taken as %v, want %v", order, want)
	}
	if in := task.WorkingInputs(); in[0].StreamTime != 30 || in[1].StreamTime != 40 {
		t.Errorf("the stream times are %d and %d, want 30 and 40", in[0].StreamTime, in[1].StreamTime)
	}
	if calls != 4 {
		t.Errorf("the function was called %d times, want 4", calls)
	}
}

// TestEventTimeSeesTheRecord: the function sees the same record for its turn and when it is
// processed, with key, headers, position, timestamp and the stream time before it. A record for
// which it fails takes its turn by its timestamp.
func TestEventTimeSeesTheRecord(t *testing.T) {
	var seen []string
	b := topology.NewBuilder("timed")
	key, number := schemas.String(), schemas.Int64()
	topology.From(b, topology.Topic("plain", key, number)).Merge("both", topology.From(b, topology.Topic("timed", key, number),
		topology.EventTime(func(r topology.Record[string, int64]) (time.Time, error) {
			topic, partition, offset := r.Source()
			before := "none"
			if ms := r.StreamTime(); ms != state.NoTime {
				before = strconv.FormatInt(ms, 10)
			}
			seen = append(seen, fmt.Sprintf("%s %s %s[%d]@%d %d %s", r.Key, r.Headers[0].Value, topic, partition, offset, r.Timestamp, before))
			if r.Value < 0 {
				return time.Time{}, errors.New("it has no time")
			}
			return time.UnixMilli(r.Value), nil
		})))
	task := stateless(t, b, epoch, "plain", "timed")
	give := func(input int, topic string, offset, timestamp, value int64) {
		r := &broker.Record{
			Topic: topic, Offset: offset, Timestamp: time.UnixMilli(timestamp), Key: []byte("k"),
			Headers: []broker.RecordHeader{{Key: "h", Value: []byte("v")}}, Value: binary.BigEndian.AppendUint64(nil, uint64(value)),
		}
		if _, ok := task.Enqueue(input, []*broker.Record{r}); !ok {
			t.Fatal("the task is closed")
		}
	}
	give(0, "plain", 0, 10, 0)
	give(0, "plain", 1, 60, 0)
	give(1, "timed", 5, 99, 20)
	give(1, "timed", 6, 70, -1)
	task.Pull()
	for i, want := range []string{"plain[0] offset 0", "timed[0] offset 5", "plain[0] offset 1"} {
		e, ok := task.Next(epoch)
		if !ok || e.String() != want {
			t.Fatalf("record %d is %s, want %s", i, e, want)
		}
		v := task.Process(e)
		if v.Action != graph.Accept {
			t.Fatal(v.Failure)
		}
		task.Advance(e, v.EventTime)
	}
	want := []string{"k v timed[0]@5 99 none", "k v timed[0]@5 99 10", "k v timed[0]@6 70 20"}
	if !slices.Equal(seen, want) {
		t.Errorf("the function has seen %q, want %q", seen, want)
	}
}
