package batch_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/broker/batch/batchtest"
)

// withEpoch sets the producer epoch of an encoded batch.
func withEpoch(b []byte, epoch uint16) []byte {
	binary.BigEndian.PutUint16(b[51:], epoch)
	return batchtest.Seal(b)
}

// TestHeads: batches of transactions are told with producer, epoch and ending, committed or not,
// compressed or not; others are passed over.
func TestHeads(t *testing.T) {
	records := []batchtest.Record{{Delta: 0}, {Delta: 1}}
	log := slices.Concat(
		withEpoch(batchtest.Encode(10, 1, 7, batchtest.Transactional, kgo.SnappyCompression(), records), 5),
		batchtest.Encode(12, 1, -1, 0, kgo.NoCompression(), records), // of no transaction
		withEpoch(batchtest.Marker(14, 7, 1), 6),
		withEpoch(batchtest.Encode(15, 0, 8, batchtest.Transactional, kgo.NoCompression(), nil), 0), // emptied by compaction
		withEpoch(batchtest.Marker(16, 8, 0), 0x7fff),
		withEpoch(batchtest.Encode(17, 0, 7, batchtest.Transactional|batchtest.Control, kgo.NoCompression(), nil), 7), // a marker that was
	)
	want := []batch.Head{
		{First: 10, Last: 11, ProducerID: 7, Epoch: 5},
		{First: 14, Last: 14, ProducerID: 7, Epoch: 6, Ending: batch.Committed},
		{First: 15, Last: 15, ProducerID: 8},
		{First: 16, Last: 16, ProducerID: 8, Epoch: 0x7fff, Ending: batch.Aborted},
		{First: 17, Last: 17, ProducerID: 7, Epoch: 7, Ending: batch.Compacted},
	}
	heads := func(log []byte, offset int64) (got []batch.Head, next int64, err error) {
		next, err = batch.Heads(&kmsg.FetchResponseTopicPartition{RecordBatches: log}, offset, func(h batch.Head) { got = append(got, h) })
		return got, next, err
	}
	if got, next, err := heads(log, 0); err != nil || next != 18 || !slices.Equal(got, want) {
		t.Errorf("got %+v, next %d, %v", got, next, err)
	}
	if got, next, err := heads(log, 11); err != nil || next != 18 || !slices.Equal(got, want) { // in the middle of a batch
		t.Errorf("from 11 got %+v, next %d, %v", got, next, err)
	}
	if got, next, err := heads(log[:len(log)-1], 12); err != nil || next != 17 || !slices.Equal(got, want[1:4]) { // cut off
		t.Errorf("cut off got %+v, next %d, %v", got, next, err)
	}
	log[len(log)-1]++
	if _, next, err := heads(log, 0); !errors.Is(err, batch.ErrMalformed) || next != 17 {
		t.Errorf("with a wrong checksum next is %d, %v", next, err)
	}
}
