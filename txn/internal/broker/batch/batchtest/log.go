// Package batchtest writes record batches as producers and brokers do, for tests of those who read
// them.
package batchtest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Codecs are those of the format.
var Codecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(), kgo.GzipCompression(),
}

// Record is what a batch is built of. Delta is the difference of its offset to the batch's.
type Record struct {
	Delta, Timestamp int64
	Key, Value       []byte
	Headers          []kmsg.Header
}

// The bits of a batch's attributes.
const (
	LogAppend     = 0x08
	Transactional = 0x10
	Control       = 0x20
)

// Encode returns a batch. Last is the difference of the offset of the last record that there ever
// was.
func Encode(base, last, producer int64, attributes int16, codec kgo.CompressionCodec, entries []Record) []byte {
	var records []byte
	first, most := int64(1_700_000_000_000), int64(0)
	for _, e := range entries {
		r := kmsg.Record{TimestampDelta64: e.Timestamp - first, OffsetDelta: int32(e.Delta), Key: e.Key, Value: e.Value, Headers: e.Headers}
		body := r.AppendTo(nil)[1:] // without the length, which is 0 and takes one byte
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
		most = max(most, e.Timestamp)
	}
	if compressor := compressorOf(codec); compressor != nil && len(entries) > 0 {
		packed, kind := compressor.Compress(new(bytes.Buffer), records)
		attributes |= int16(kind)
		records = bytes.Clone(packed)
	}
	b := kmsg.RecordBatch{
		FirstOffset: base, Magic: 2, Attributes: attributes, LastOffsetDelta: int32(last), FirstTimestamp: first, MaxTimestamp: most,
		ProducerID: producer, NumRecords: int32(len(entries)), Records: records, Length: int32(49 + len(records)),
	}
	return Seal(b.AppendTo(nil))
}

// compressors are kept: each holds buffers of megabytes, which cost more than what tests compress.
var compressors sync.Map // of kgo.CompressionCodec to kgo.Compressor

// compressorOf returns nil for no compression.
func compressorOf(codec kgo.CompressionCodec) kgo.Compressor {
	if kept, ok := compressors.Load(codec); ok {
		return kept.(kgo.Compressor)
	}
	compressor, err := kgo.DefaultCompressor(codec)
	if err != nil {
		panic(err)
	}
	if compressor != nil {
		compressors.Store(codec, compressor)
	}
	return compressor
}

// Seal sets the checksum of a single batch.
func Seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// Marker returns the control batch that ends a transaction: 1 is a commit, 0 an abort.
func Marker(base, producer int64, commit byte) []byte {
	return Encode(base, 0, producer, Transactional|Control, kgo.NoCompression(),
		[]Record{{Timestamp: 1_700_000_000_001, Key: []byte{0, 0, 0, commit}, Value: []byte{0, 0, 0, 0, 0, 0}}})
}

// RandomLog is a log of interleaved transactions of several producers and of writes without one,
// with compression and the gaps that compaction leaves, and the list of what was aborted as a
// broker returns it.
func RandomLog(rng *rand.Rand, batches int) kmsg.FetchResponseTopicPartition {
	var p kmsg.FetchResponseTopicPartition
	open := map[int64]int64{} // first offsets by producer
	at := rng.Int64N(1000)
	for range batches {
		producer := rng.Int64N(4)
		first, isOpen := open[producer]
		if isOpen && rng.IntN(3) == 0 {
			commit := byte(rng.IntN(2))
			p.RecordBatches = append(p.RecordBatches, Marker(at, producer, commit)...)
			if commit == 0 {
				p.AbortedTransactions = append(p.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{
					ProducerID: producer, FirstOffset: first})
			}
			delete(open, producer)
			at++
			continue
		}
		attributes := int16(0)
		if producer > 0 {
			attributes |= Transactional
			if !isOpen {
				open[producer] = at
			}
		}
		if rng.IntN(8) == 0 {
			attributes |= LogAppend
		}
		last := rng.Int64N(40)
		var entries []Record
		kept := rng.IntN(5) // of four, after compaction
		for delta := range last + 1 {
			if rng.IntN(4) < kept {
				entries = append(entries, randomRecord(rng, delta))
			}
		}
		p.RecordBatches = append(p.RecordBatches, Encode(at, last, producer, attributes, Codecs[rng.IntN(len(Codecs))], entries)...)
		at += last + 1 + rng.Int64N(2)*rng.Int64N(50) // compaction may drop whole batches
	}
	for producer, first := range open {
		if rng.IntN(2) == 0 { // the marker is beyond the end of the answer
			p.AbortedTransactions = append(p.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{
				ProducerID: producer, FirstOffset: first})
		}
	}
	rng.Shuffle(len(p.AbortedTransactions), func(i, j int) {
		a := p.AbortedTransactions
		a[i], a[j] = a[j], a[i]
	})
	return p
}

func randomRecord(rng *rand.Rand, delta int64) Record {
	e := Record{Delta: delta, Timestamp: 1_700_000_000_000 + rng.Int64N(1<<33) - 1<<32, Key: randomBytes(rng), Value: randomBytes(rng)}
	for range rng.IntN(3) * rng.IntN(2) {
		e.Headers = append(e.Headers, kmsg.Header{Key: string(randomBytes(rng)), Value: randomBytes(rng)})
	}
	return e
}

// randomBytes returns nil, nothing, or some bytes.
func randomBytes(rng *rand.Rand) []byte {
	n := rng.IntN(40) - 1
	if rng.IntN(50) == 0 {
		n = 200 + rng.IntN(300)
	}
	if n < 0 {
		return nil
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.IntN(4))
	}
	return b
}
