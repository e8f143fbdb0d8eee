package restore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch/batchtest"
	"github.com/onceward/onceward/txn/internal/task"
)

// compactedLog is the log of a topic whose records are left at these offsets, of ten that it had.
func compactedLog(offsets ...int64) *fakeLog {
	var records []batchtest.Record
	for _, at := range offsets {
		records = append(records, batchtest.Record{Delta: at, Timestamp: 1_700_000_000_000, Key: []byte{byte(at)}, Value: []byte("v")})
	}
	var p kmsg.FetchResponseTopicPartition
	p.RecordBatches = batchtest.Encode(0, 9, 1, 0, kgo.NoCompression(), records)
	return newFakeLog(p)
}

// TestOldFormat: a topic that was written long ago can begin with messages that have no batches. A
// restore says so, and does not wait for the rest of a batch.
func TestOldFormat(t *testing.T) {
	message := kmsg.MessageV1{Magic: 1, Timestamp: 1, Key: []byte("k"), Value: []byte("v")}
	message.MessageSize = int32(len(message.AppendTo(nil)) - 12)
	for name, written := range map[string][]byte{
		"alone": message.AppendTo(nil), "behind a batch": append(compactedLog(0, 3).p.RecordBatches, message.AppendTo(nil)...),
	} {
		log := &fakeLog{end: 11, p: kmsg.FetchResponseTopicPartition{RecordBatches: written}}
		b := newBench(t, 0, 1, map[string]*fakeLog{"a": log})
		b.r.stream = func(Changelog, int32) stream { return answering{log.p} }
		replay := b.replays()[0]
		replay.FromSource = &graph.SourceRows{}
		x := &changelog{opening: b.opening(), Replay: replay, id: state.IDOf("a")}
		x.row = func(key, value []byte, _ int64) (state.Write, bool, error) {
			return state.Write{Key: key, Value: value}, true, nil
		}
		if err := x.read(t.Context()); !errors.Is(err, ErrNotExact) || !strings.Contains(err.Error(), "from before Kafka 0.11") {
			t.Errorf("%s: it returned %v", name, err)
		}
	}
}

// answering answers with the same bytes whatever is asked for.
type answering struct {
	p kmsg.FetchResponseTopicPartition
}

func (a answering) Close() {}

func (a answering) Fetch(ctx context.Context, offset int64, _ int32) (broker.Answer, error) {
	return broker.NewAnswer(a.p, offset), ctx.Err()
}

// TestDigestOfTheLog: as many records as were taken are not the same ones. Replicas compact by
// themselves, and another one leads now.
func TestDigestOfTheLog(t *testing.T) {
	taken := task.FirstDigest(judgeNow)
	for _, at := range []int64{0, 3, 4} {
		taken = task.AddToDigest(taken, at)
	}
	for _, tc := range []struct {
		left []int64
		same bool
	}{
		{[]int64{0, 3, 4}, true},
		{[]int64{0, 2, 4}, false},
		{[]int64{3, 4}, false},
		{[]int64{0, 3, 4, 5}, false},
	} {
		b := newBench(t, 0, 1, map[string]*fakeLog{"a": compactedLog(tc.left...)})
		x := &changelog{opening: b.opening(), Replay: b.replays()[0], id: state.IDOf("a"), digest: task.EmptyDigest(taken)}
		x.row = func(key, value []byte, _ int64) (state.Write, bool, error) {
			return state.Write{Key: key, Value: value}, true, nil
		}
		if err := x.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if same := x.digest == taken; same != tc.same {
			t.Errorf("with %v left, what was taken is there: %t", tc.left, same)
		}
	}
}
