package topology

import "github.com/onceward/onceward/schemas"

// arenaChunk is large against a usual record and small against a round. A chunk lives as long as
// any slice from it.
const arenaChunk = 32 << 10

// arena returns byte slices from chunks that are never reused. So encoding a record costs no
// allocation of its own, and callers may keep outputs.
type arena struct {
	// free is the rest of the chunk: length 0, and the capacity is what is left.
	free []byte
}

// take returns v encoded by codec, in memory that is never used for another value. It is never nil
// without an error.
func take[T any](a *arena, codec schemas.Codec[T], v T) ([]byte, error) {
	b, err := codec.Append(a.room(), v)
	if err != nil {
		return nil, err
	}
	return a.keep(b), nil
}

// room returns free memory, of length 0, to append something to, which keep then keeps.
func (a *arena) room() []byte {
	if cap(a.free) < arenaChunk/8 {
		a.free = make([]byte, 0, arenaChunk)
	}
	return a.free
}

// keep returns the bytes that were appended to room, in memory that is never used for another
// value. It is never nil.
func (a *arena) keep(b []byte) []byte {
	n := len(b)
	if n == 0 {
		return a.free[:0:0]
	}
	// If the value did not fit, append has moved it to memory of its own and the chunk is as it
	// was.
	if &b[0] == &a.free[:1][0] {
		a.free = a.free[n:n:cap(a.free)]
	}
	return b[:n:n]
}
