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
// calls. Values are handed over, so each gets new memory; the size of the last one saves growing
// it.
type codecBuffers struct {
	key       []byte
	valueSize int
	// rows is the memory of the rows of one key (timeRows.scanKey).
	rows []Entry
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

// valueRoomMax bounds the room that is made for a value because the last one needed it. A longer
// value grows it.
const valueRoomMax = 4 << 10

// buffer returns new memory for a value and the prefix of its row.
func (c codecs[K, V]) buffer() []byte {
	return make([]byte, 0, max(min(c.buffers.valueSize, valueRoomMax), timeSize))
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
	if cap(b) > 2*len(b)+valueSlack {
		b = append(make([]byte, 0, len(b)), b...)
	}
	return b, nil
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
