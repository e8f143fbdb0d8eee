package task

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch/batchtest"
)

// controlRecord returns the marker of a commit, as a fetch brings it.
func controlRecord(t *testing.T) *broker.Record {
	t.Helper()
	fetched, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true},
		&kmsg.FetchResponseTopicPartition{RecordBatches: batchtest.Marker(0, 1, 1)}, kgo.DefaultDecompressor(), nil)
	if len(fetched.Records) != 1 || !fetched.Records[0].Attrs.IsControl() {
		t.Fatalf("a marker is fetched as %v", fetched.Records)
	}
	return fetched.Records[0]
}

// TestTaken: what a contribution says of its journal is what a walk through the journal finds.
// Control records count as memory and as nothing else, and punctuations belong to no input.
func TestTaken(t *testing.T) {
	c := New(Spec{Inputs: make([]state.Input, 3)}).Begin()
	if n, oldest := c.Records(); n != 0 || oldest != math.MaxInt64 {
		t.Errorf("an empty contribution has %d records, the oldest of %d ms", n, oldest)
	}
	held := c.TookControl(Entry{Input: 1, Record: controlRecord(t)})
	for i, ms := range []int64{500, 300, 400} {
		r := &broker.Record{Timestamp: time.UnixMilli(ms), Value: make([]byte, i)}
		held += c.Took(Entry{Input: i % 2, Record: r}, &graph.Verdict{Action: graph.Accept})
	}
	if punctuation := c.Took(Entry{Input: -1, Punctuation: new(topology.Punctuation)}, &graph.Verdict{}); punctuation <= 0 {
		t.Errorf("a punctuation takes %d bytes", punctuation)
	}
	if n, oldest := c.Records(); n != 3 || oldest != 300 {
		t.Errorf("3 records, the oldest of 300 ms, are %d with %d ms", n, oldest)
	}
	var records, bytes []int64
	for _, in := range c.Taken {
		records, bytes = append(records, in.Records), append(bytes, in.Bytes)
	}
	if !slices.Equal(records, []int64{2, 1, 0}) {
		t.Errorf("the inputs have %v records, want 2, 1, 0", records)
	}
	if bytes[0]+bytes[1] != held || bytes[2] != 0 || bytes[1] < 2*entryOverhead {
		t.Errorf("the inputs have %v bytes, %d together", bytes, held)
	}
	if first := c.Oldest(); !slices.Equal(first, []int64{500, 300, state.NoTime}) {
		t.Errorf("the first records are of %v ms", first)
	}
}
