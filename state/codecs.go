package state

import (
	"fmt"
	"slices"
)

// codecs encodes and decodes for a typed view. Copies share the buffers, so all copies belong to
// one goroutine.
type codecs[K, V any] struct {
	keys    Codec[K]
	values  Codec[V]
	buffers *codecBuffers
}

// codecBuffers is what copies of a view share. The store copies keys, so one buffer serves all
// calls. Values are handed over, so each gets memory that is used for no other one: short values get
// parts of a chunk, in free, and long ones memory of their own. The size of the last value says
// which, and saves growing it.
type codecBuffers struct {
	key       []byte
	free      []byte
	valueSize int
	// rows is the memory of the rows of one key (timeRows.rowsOfKey), ends that of the suffixes in a
	// KeyRange.
	rows []Entry
	ends [4][suffixMax]byte
}

func newCodecs[K, V any](k Codec[K], v Codec[V]) codecs[K, V] {
	return codecs[K, V]{keys: k, values: v, buffers: &codecBuffers{}}
}

// key encodes into the shared buffer, valid until the next call. There is room for a time behind
// the key.
func (c codecs[K, V]) key(key K) ([]byte, error) {
	b, err := c.keys.Append(c.buffers.key[:0], key)
	if err != nil {
		return nil, errEncodeKey(err)
	}
	c.buffers.key = slices.Grow(b, timeSize)
	return c.buffers.key, nil
}

// encodeKey returns the encoded form of key in new memory.
func (c codecs[K, V]) encodeKey(key K) ([]byte, error) {
	b, err := c.keys.Append(nil, key)
	if err != nil {
		return nil, errEncodeKey(err)
	}
	return b, nil
}

const (
	// valueRoomMax bounds the room that is made for a value because the last one needed it. A
	// longer value grows it.
	valueRoomMax = 4 << 10
	// valueChunk is the size of a chunk, valueShort that of the longest value that gets a part of
	// one. A chunk lives as long as one value in it, and the bound of a round counts values alone.
	// So a chunk is small.
	valueChunk = 512
	valueShort = 64
)

// buffer returns memory for a value and the prefix of its row, to be given to value.
func (c codecs[K, V]) buffer() []byte {
	b := c.buffers
	size := max(min(b.valueSize, valueRoomMax), timeSize)
	if size > valueShort {
		return make([]byte, 0, size)
	}
	if cap(b.free) < size {
		b.free = make([]byte, 0, valueChunk)
	}
	return b.free
}

// valueSlack is what the memory of a value may have beyond twice its length.
const valueSlack = 64

// value appends the encoded value to dst, a slice from buffer. The store keeps it until its round
// has ended, and counts its length against the bound of a round. So its capacity must be near its
// length: a short value in memory for a long one gets its own memory.
func (c codecs[K, V]) value(dst []byte, value V) ([]byte, error) {
	b, err := c.values.Append(dst, value)
	if err != nil {
		return nil, fmt.Errorf("state: encode value: %w", err)
	}
	c.buffers.valueSize = len(b)
	if c.buffers.took(b) {
		return b[:len(b):len(b)], nil
	}
	if cap(b) > 2*len(b)+valueSlack {
		b = append(make([]byte, 0, len(b)), b...)
	}
	return b, nil
}

// took reports whether b lies in the chunk, and takes it out.
func (b *codecBuffers) took(value []byte) bool {
	if cap(b.free) == 0 || cap(value) == 0 || &value[:1][0] != &b.free[:1][0] {
		return false // append has moved it to memory of its own, and the chunk is as it was
	}
	b.free = b.free[len(value):len(value):cap(b.free)]
	return true
}

func (c codecs[K, V]) decodeKey(b []byte) (K, error) {
	key, err := c.keys.Decode(b)
	if err != nil {
		return key, fmt.Errorf("state: decode key: %w", err)
	}
	return key, nil
}

func (c codecs[K, V]) decodeValue(b []byte) (V, error) {
	value, err := c.values.Decode(b)
	if err != nil {
		return value, fmt.Errorf("state: decode value: %w", err)
	}
	return value, nil
}

func errEncodeKey(err error) error { return fmt.Errorf("state: encode key: %w", err) }
