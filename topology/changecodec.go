package topology

import (
	"encoding/binary"
	"errors"

	"github.com/onceward/onceward/schemas"
)

// changeCodec is the format of changes between [GroupTable] and the aggregations: the values, and
// in the last byte which there are.
type changeCodec[V any] struct{ value schemas.Codec[V] }

// The last byte of a change.
const (
	changeOld byte = iota
	changeNew
	changeBoth
)

func (c changeCodec[V]) Name() string { return "change:" + c.value.Name() }

func (c changeCodec[V]) Append(dst []byte, v Change[V]) ([]byte, error) {
	switch {
	case v.New.ok && v.Old.ok:
		return c.appendBoth(dst, v)
	case v.New.ok:
		return c.appendOne(dst, v.New.value, changeNew)
	case v.Old.ok:
		return c.appendOne(dst, v.Old.value, changeOld)
	}
	return dst, &schemas.Error{
		Codec: c.Name(), Op: schemas.OpAppend, Offset: -1, Reason: "the change has neither an old value nor a new one",
	}
}

func (c changeCodec[V]) appendOne(dst []byte, v V, flag byte) ([]byte, error) {
	b, err := c.value.Append(dst, v)
	if err != nil {
		return dst, innerError(c.Name(), schemas.OpAppend, 0, err)
	}
	return append(b, flag), nil
}

// appendBoth puts the length of the new value first, which is known only when it is there.
func (c changeCodec[V]) appendBoth(dst []byte, v Change[V]) ([]byte, error) {
	n := len(dst)
	b, err := c.value.Append(dst, v.New.value)
	if err != nil {
		return dst, innerError(c.Name(), schemas.OpAppend, 0, err)
	}
	var length [binary.MaxVarintLen64]byte
	size := binary.PutVarint(length[:], int64(len(b)-n)) // zigzag, as Kafka's ByteUtils.writeVarint
	b = append(b, length[:size]...)
	copy(b[n+size:], b[n:])
	copy(b[n:], length[:size])
	if b, err = c.value.Append(b, v.Old.value); err != nil {
		return dst, innerError(c.Name(), schemas.OpAppend, 0, err)
	}
	return append(b, changeBoth), nil
}

func (c changeCodec[V]) Decode(b []byte) (Change[V], error) {
	n := len(b) - 1
	if n < 0 {
		return c.malformed(0, "it is empty")
	}
	switch b[n] {
	case changeOld:
		v, err := c.decode(b[:n], 0)
		return Change[V]{Old: v}, err
	case changeNew:
		v, err := c.decode(b[:n], 0)
		return Change[V]{New: v}, err
	case changeBoth:
		length, size := binary.Varint(b[:n])
		if size <= 0 || length < 0 || length > int64(n-size) {
			return c.malformed(0, "the length of the new value is not one")
		}
		end := size + int(length)
		after, err := c.decode(b[size:end], size)
		if err != nil {
			return Change[V]{}, err
		}
		before, err := c.decode(b[end:n], end)
		if err != nil {
			return Change[V]{}, err
		}
		return Change[V]{Old: before, New: after}, nil
	}
	return c.malformed(n, "the last byte does not say which values there are")
}

func (c changeCodec[V]) malformed(at int, reason string) (Change[V], error) {
	return Change[V]{}, &schemas.Error{Codec: c.Name(), Op: schemas.OpDecode, Offset: int64(at), Reason: reason}
}

// decode decodes a value that begins at an index of the change.
func (c changeCodec[V]) decode(b []byte, at int) (Option[V], error) {
	v, err := c.value.Decode(b)
	if err != nil {
		return Option[V]{}, innerError(c.Name(), schemas.OpDecode, at, err)
	}
	return Some(v), nil
}

// innerError is the error of a codec that another one has returned, for a part that begins at an
// index.
func innerError(codec, op string, at int, err error) error {
	offset := int64(-1)
	if e, ok := errors.AsType[*schemas.Error](err); ok && e.Offset >= 0 {
		offset = e.Offset + int64(at)
	}
	return &schemas.Error{Codec: codec, Op: op, Offset: offset, Reason: schemas.ReasonOf(err)}
}
