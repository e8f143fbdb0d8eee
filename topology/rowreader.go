package topology

import "encoding/binary"

// appendNullable appends b behind its length plus one, which is 0 for null.
func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendUvarint(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))+1), b...)
}

// rowReader reads the fields of a row, one after the other. After the first failure every field is
// zero and bad stays set.
type rowReader struct {
	rest []byte
	bad  bool
}

func (r *rowReader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

func (r *rowReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *rowReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// nullable reads what appendNullable has written. The bytes are those of the row.
func (r *rowReader) nullable() []byte {
	n := r.uvarint()
	if r.bad || n == 0 {
		return nil
	}
	return r.take(n - 1)
}
