package restore

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/state"
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

// TestDigestOfTheLog: as many records as were taken are not the same ones. Replicas compact by themselves, and another one leads now.
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
