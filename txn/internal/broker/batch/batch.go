package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Record is one committed record. Key and Value are valid until the function that got them returns;
// both are nil where the log has null.
type Record struct {
	Offset int64
	// Timestamp is in milliseconds since the epoch: the producer's, or the broker's where the topic
	// has log append time.
	Timestamp  int64
	Key, Value []byte
}

// ErrMalformed says that an answer is not what the format allows, or fails its checksum.
var ErrMalformed = errors.New("malformed record batch")

// Decoder decodes answers one after the other, and keeps between them what would otherwise be
// allocated for each.
type Decoder struct {
	decompressor kgo.Decompressor
	// unpacked is where compressed batches are decompressed to.
	unpacked []byte
	aborts   aborts
}

// NewDecoder returns a decoder.
func NewDecoder() *Decoder {
	d := &Decoder{aborts: aborts{}}
	d.decompressor = kgo.DefaultDecompressor((*buffer)(d))
	return d
}

// buffer gives the decompressor one slice again and again.
type buffer Decoder

// GetDecompressBytes implements kgo.PoolDecompressBytes.
func (b *buffer) GetDecompressBytes([]byte, kgo.CompressionCodecType) []byte { return b.unpacked[:0] }

// PutDecompressBytes implements kgo.PoolDecompressBytes. The slice was never away.
func (b *buffer) PutDecompressBytes([]byte) {}

// The fixed part of a batch, by the places of its fields.
const (
	atLength          = 8 // of what follows the length itself
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21 // what the checksum begins with
	atLastOffsetDelta = 23
	atFirstTimestamp  = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atCount           = 57
	headerSize        = 61

	// lengthSize is what the length does not count: the base offset and itself.
	lengthSize = 12
)

// The bits of a batch's attributes.
const (
	compressionMask = 0x07
	logAppendTime   = 0x08
	transactional   = 0x10
	control         = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is what the fixed part says.
type header struct {
	base, last     int64 // offsets of the first and the last record that there ever were
	attributes     uint16
	firstTimestamp int64
	maxTimestamp   int64
	producerID     int64
	count          int
}

// Decode calls each for the committed records of p from offset on. It returns the next offset to
// fetch from, which is offset itself if p does not hold a whole batch. An error of each ends it,
// and is returned as it is. After an error the records that each got are committed ones still, and
// next is behind the last whole batch of them: each may get a part of the batch that is malformed.
// The answer's own error code is the caller's.
func (d *Decoder) Decode(p *kmsg.FetchResponseTopicPartition, offset int64, each func(Record) error) (next int64, err error) {
	d.aborts.reset(p.AbortedTransactions)
	next = offset
	for in := p.RecordBatches; ; {
		batch, rest, err := first(in)
		if batch == nil || err != nil {
			return next, err
		}
		if next, err = d.batch(batch, next, each); err != nil {
			return next, err
		}
		in = rest
	}
}

// first returns the first batch of in, and what is behind it. The batch is nil if in does not hold
// a whole one.
func first(in []byte) (batch, rest []byte, err error) {
	if len(in) < lengthSize {
		return nil, nil, nil
	}
	length := int64(int32(binary.BigEndian.Uint32(in[atLength:]))) + lengthSize
	if length < headerSize {
		return nil, nil, malformed(int64(binary.BigEndian.Uint64(in)), "its length is %d", length-lengthSize)
	}
	if length > int64(len(in)) {
		return nil, nil, nil
	}
	return in[:length], in[length:], nil
}

// batch decodes one whole batch, and returns the offset behind it if that is more than next.
func (d *Decoder) batch(in []byte, next int64, each func(Record) error) (int64, error) {
	h, err := parseHeader(in)
	if err != nil {
		return next, err
	}
	if h.last < next {
		return next, nil
	}
	records := in[headerSize:]
	switch {
	case h.attributes&control != 0:
		if err := d.marker(h, records); err != nil {
			return next, err
		}
	case d.aborts.contain(h):
		// Not even decompressed. Nothing of it matters.
	default:
		if codec := h.attributes & compressionMask; codec != 0 {
			if records, err = d.decompressor.Decompress(records, kgo.CompressionCodecType(codec)); err != nil {
				return next, malformed(h.base, "it cannot be decompressed: %w", err)
			}
			d.unpacked = records
		}
		if err := decodeRecords(records, h, next, each); err != nil {
			return next, err
		}
	}
	return h.last + 1, nil
}

func malformed(base int64, format string, args ...any) error {
	return fmt.Errorf("%w at offset %d: %w", ErrMalformed, base, fmt.Errorf(format, args...))
}

func parseHeader(in []byte) (header, error) {
	be := binary.BigEndian
	h := header{
		base:           int64(be.Uint64(in)),
		attributes:     be.Uint16(in[atAttributes:]),
		firstTimestamp: int64(be.Uint64(in[atFirstTimestamp:])),
		maxTimestamp:   int64(be.Uint64(in[atMaxTimestamp:])),
		producerID:     int64(be.Uint64(in[atProducerID:])),
		count:          int(int32(be.Uint32(in[atCount:]))),
	}
	if magic := in[atMagic]; magic != 2 {
		return h, malformed(h.base, "its format is version %d and 2 is required", magic)
	}
	if want, got := be.Uint32(in[atCRC:]), crc32.Checksum(in[atAttributes:], castagnoli); want != got {
		return h, malformed(h.base, "its checksum is %08x and should be %08x", got, want)
	}
	delta := int64(int32(be.Uint32(in[atLastOffsetDelta:])))
	if h.base < 0 || delta < 0 || h.base > math.MaxInt64-1-delta {
		return h, malformed(h.base, "its last record is %d offsets behind its first", delta)
	}
	if h.count < 0 {
		return h, malformed(h.base, "it has %d records", h.count)
	}
	h.last = h.base + delta
	return h, nil
}

// marker notes the end of an aborted transaction.
func (d *Decoder) marker(h header, records []byte) error {
	if h.attributes&compressionMask != 0 {
		return malformed(h.base, "a compressed control batch")
	}
	aborted := d.aborts.contain(h)
	seen := false
	err := decodeRecords(records, h, h.base, func(r Record) error {
		// The key is a version and a type, of two bytes each, and type 0 ends an aborted
		// transaction. A batch ends one at most.
		if len(r.Key) >= 4 && r.Key[2] == 0 && r.Key[3] == 0 {
			seen = true
		}
		return nil
	})
	if err == nil && aborted && seen {
		d.aborts.end(h.producerID)
	}
	return err
}

// aborts are the first offsets of the aborted transactions of an answer by producer, ascending.
type aborts map[int64][]int64

// reset takes the list of an answer. Brokers need not sort it.
func (a aborts) reset(list []kmsg.FetchResponseTopicPartitionAbortedTransaction) {
	clear(a)
	for _, t := range list {
		a[t.ProducerID] = append(a[t.ProducerID], t.FirstOffset)
	}
	for _, firsts := range a {
		slices.Sort(firsts)
	}
}

// contain reports whether a batch belongs to an aborted transaction.
func (a aborts) contain(h header) bool {
	if len(a) == 0 || h.attributes&transactional == 0 {
		return false
	}
	firsts := a[h.producerID]
	return len(firsts) > 0 && h.base >= firsts[0]
}

// end drops the oldest aborted transaction of a producer: the producer's next batch belongs to
// another one.
func (a aborts) end(producerID int64) {
	if firsts := a[producerID]; len(firsts) > 1 {
		a[producerID] = firsts[1:]
	} else {
		delete(a, producerID)
	}
}

// Next returns what Decode will if the answer is well formed, from the headers of its batches
// alone: so the next fetch can be sent before the answer is decoded. Nothing is checked.
func Next(p *kmsg.FetchResponseTopicPartition, offset int64) int64 {
	for in := p.RecordBatches; len(in) >= headerSize; {
		length := int64(int32(binary.BigEndian.Uint32(in[atLength:]))) + lengthSize
		if length < headerSize || length > int64(len(in)) {
			break
		}
		base := int64(binary.BigEndian.Uint64(in))
		offset = max(offset, base+int64(int32(binary.BigEndian.Uint32(in[atLastOffsetDelta:])))+1)
		in = in[length:]
	}
	return offset
}

// HasOldFormat reports whether p holds messages in a format from before Kafka 0.11, versions 0 and
// 1. They have no batches, so that neither Decode nor Next goes past them. Their length and their
// version are where those of a batch are.
func HasOldFormat(p *kmsg.FetchResponseTopicPartition) bool {
	for in := p.RecordBatches; len(in) > atMagic; {
		if in[atMagic] < 2 {
			return true
		}
		length := int64(int32(binary.BigEndian.Uint32(in[atLength:]))) + lengthSize
		if length < headerSize || length > int64(len(in)) {
			break
		}
		in = in[length:]
	}
	return false
}

// NewestAt returns the largest timestamp of the batch that contains an offset, in milliseconds
// since the epoch; ok is false if there is no such batch. Nothing is checked.
func NewestAt(p *kmsg.FetchResponseTopicPartition, offset int64) (ms int64, ok bool) {
	for in := p.RecordBatches; len(in) >= headerSize; {
		length := int64(int32(binary.BigEndian.Uint32(in[atLength:]))) + lengthSize
		if length < headerSize || length > int64(len(in)) {
			break
		}
		base := int64(binary.BigEndian.Uint64(in))
		last := base + int64(int32(binary.BigEndian.Uint32(in[atLastOffsetDelta:])))
		if base <= offset && offset <= last {
			return int64(binary.BigEndian.Uint64(in[atMaxTimestamp:])), true
		}
		in = in[length:]
	}
	return 0, false
}
