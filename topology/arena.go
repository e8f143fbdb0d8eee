package topology

import "github.com/onceward/onceward/schemas"

// arenaChunk is large against a usual record and small against a round; a chunk lives as long as any slice
// of it.
const arenaChunk = 32 << 10

// arena gives out byte slices from chunks that are never reused, so that encoding a record costs no
// allocation of its own and outputs may be kept for as long as anybody likes.
type arena struct {
	// free is the rest of the chunk: length 0, and the capacity is what is left.
	free []byte
}

// take returns what codec makes of v, in memory that nobody else has or will get. It is never nil without
// an error.
func take[T any](a *arena, codec schemas.Codec[T], v T) ([]byte, error) {
	if cap(a.free) < arenaChunk/8 {
		a.free = make([]byte, 0, arenaChunk)
	}
	b, err := codec.Append(a.free, v)
	if err != nil {
		return nil, err
	}
	n := len(b)
	if n == 0 {
		return a.free[:0:0], nil
	}
	// If the value did not fit, append has moved it to memory of its own and the chunk is as it was.
	if &b[0] == &a.free[:1][0] {
		a.free = a.free[n:n:cap(a.free)]
	}
	return b[:n:n], nil
}
