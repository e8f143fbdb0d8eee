package batch

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrTooLarge says that a record does not fit into a batch of its topic, even alone.
var ErrTooLarge = errors.New("the record is larger than a batch of its topic may be")

// Header is a header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Identity is what the broker knows the producer of a batch by.
type Identity struct {
	ProducerID int64
	Epoch      int16
}

// The places of fields that only a producer writes.
const (
	atLeaderEpoch   = 12
	atFirstSequence = 53
)

// Batch is one record batch of a transaction. Its Set fills it. Then the goroutine that sends it
// seals it, reads it, and releases its memory.
type Batch struct {
	Topic     string
	Partition int32

	count      int32
	first, max int64 // timestamps
	chunks     []*chunk
	bytes      int // of the records, not compressed
	sequence   int32
	sealed     bool
	// taken says that the batch was handed over, ahead that the Set counts it among those that may
	// be sent ahead.
	taken, ahead bool

	head   [headerSize]byte
	packed *packed // the compressed records, nil if the chunks are sent
	base   int64
}

// Count returns the number of records.
func (b *Batch) Count() int32 { return b.count }

// Size returns how many bytes the batch takes on the wire. It shrinks if Seal compresses the
// records.
func (b *Batch) Size() int {
	if b.packed != nil {
		return headerSize + len(b.packed.bytes)
	}
	return headerSize + b.bytes
}

// Sequence returns the sequence number of the first record. The batch is sealed.
func (b *Batch) Sequence() int32 { return b.sequence }

// SetBase notes the offset that the broker gave the first record.
func (b *Batch) SetBase(offset int64) { b.base = offset }

// size returns how many bytes one more record takes, and how many of them follow its length.
func (b *Batch) size(at int64, key, value []byte, headers int, headerBytes int) (all, body int) {
	body = 1 + varintSize(at-b.first) + varintSize(int64(b.count)) + bytesSize(key) + bytesSize(value) +
		varintSize(int64(headers)) + headerBytes
	return varintSize(int64(body)) + body, body
}

// append adds a record of which size has returned the sizes.
func (b *Batch) append(all, body int, at int64, key, value []byte) []byte {
	out := b.room(all)
	out = binary.AppendVarint(out, int64(body))
	out = append(out, 0) // attributes, which mean nothing
	out = binary.AppendVarint(out, at-b.first)
	out = binary.AppendVarint(out, int64(b.count))
	out = appendBytes(out, key)
	out = appendBytes(out, value)
	b.bytes += all
	b.count++
	b.max = max(b.max, at)
	return out
}

// room returns the buffer of a chunk with room for a record. The caller appends the record and
// gives the buffer to keep.
func (b *Batch) room(n int) []byte {
	if last := len(b.chunks) - 1; last >= 0 {
		if c := b.chunks[last]; cap(c.bytes)-len(c.bytes) >= n {
			return c.bytes
		}
	}
	b.chunks = append(b.chunks, newChunk(len(b.chunks), n))
	return b.chunks[len(b.chunks)-1].bytes
}

func (b *Batch) keep(out []byte) { b.chunks[len(b.chunks)-1].bytes = out }

// Seal completes the batch, once. The compressor may be nil.
func (b *Batch) Seal(id Identity, sequence int32, c *Compressor) {
	if b.sealed {
		return
	}
	b.sealed, b.sequence = true, sequence
	attributes := uint16(transactional)
	if c != nil {
		if p, codec := c.pack(b); p != nil {
			b.packed = p
			attributes |= uint16(codec)
			b.freeChunks()
		}
	}
	be, h := binary.BigEndian, &b.head
	be.PutUint64(h[:], 0) // the broker gives the offset
	be.PutUint32(h[atLength:], uint32(b.Size()-lengthSize))
	be.PutUint32(h[atLeaderEpoch:], math.MaxUint32) // -1: the broker knows it
	h[atMagic] = 2
	be.PutUint16(h[atAttributes:], attributes)
	be.PutUint32(h[atLastOffsetDelta:], uint32(b.count-1))
	be.PutUint64(h[atFirstTimestamp:], uint64(b.first))
	be.PutUint64(h[atMaxTimestamp:], uint64(b.max))
	be.PutUint64(h[atProducerID:], uint64(id.ProducerID))
	be.PutUint16(h[atProducerEpoch:], uint16(id.Epoch))
	be.PutUint32(h[atFirstSequence:], uint32(sequence))
	be.PutUint32(h[atCount:], uint32(b.count))
	crc := crc32.Update(0, castagnoli, h[atAttributes:])
	if b.packed != nil {
		crc = crc32.Update(crc, castagnoli, b.packed.bytes)
	}
	for _, c := range b.chunks {
		crc = crc32.Update(crc, castagnoli, c.bytes)
	}
	be.PutUint32(h[atCRC:], crc)
}

// AppendTo appends the bytes of a sealed batch.
func (b *Batch) AppendTo(dst []byte) []byte {
	dst = append(dst, b.head[:]...)
	if b.packed != nil {
		return append(dst, b.packed.bytes...)
	}
	for _, c := range b.chunks {
		dst = append(dst, c.bytes...)
	}
	return dst
}

// Release gives back the memory of the records. No goroutine may read the bytes of the batch any
// more.
func (b *Batch) Release() {
	b.freeChunks()
	if b.packed != nil {
		b.packed.release()
		b.packed = nil
	}
	b.bytes = 0
}

func (b *Batch) freeChunks() {
	for i, c := range b.chunks {
		c.release()
		b.chunks[i] = nil
	}
	b.chunks = b.chunks[:0]
}

// Compressor compresses batches. It is safe for concurrent use.
type Compressor struct{ codec kgo.Compressor }

// NewCompressor returns nil for no compression.
func NewCompressor(codec kgo.CompressionCodec) (*Compressor, error) {
	c, err := kgo.DefaultCompressor(codec)
	if c == nil || err != nil {
		return nil, err
	}
	return &Compressor{c}, nil
}

// pack returns the compressed records, or nil if they are not smaller.
func (c *Compressor) pack(b *Batch) (*packed, kgo.CompressionCodecType) {
	p, source := newPacked(), newSource()
	defer sourcePool.Put(source)
	for _, c := range b.chunks {
		source.bytes = append(source.bytes, c.bytes...)
	}
	p.buffer.Reset()
	out, codec := c.codec.Compress(&p.buffer, source.bytes)
	if codec <= kgo.CodecNone || len(out) >= len(source.bytes) {
		p.release()
		return nil, 0
	}
	p.bytes = out
	return p, codec
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // the varint of -1: null
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

func bytesSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

// varintSize is how many bytes a zigzag varint takes.
func varintSize(v int64) int {
	n := 1
	for u := uint64(v<<1) ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
