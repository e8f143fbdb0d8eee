package topology

import "github.com/onceward/onceward/schemas"

// arenaChunk is large against a usual record and small against a round; a chunk lives as long as
// any slice of it.
const arenaChunk = 32 << 10

// arena gives out byte slices from chunks that are never reused, so that encoding a record costs no
// allocation of its own and outputs may be kept for as long as anybody likes.
type arena struct {
	// free is the rest of the chunk: length 0, and the capacity is what is left.
	free []byte
}

// take returns what codec makes of v, in memory that nobody else has or will get. It is never nil
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

// keep returns what was appended to room, in memory that nobody else has or will get. It is never
// nil.
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
