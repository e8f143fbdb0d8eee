package topology

import "github.com/onceward/onceward/schemas"

// arenaChunk is large against the outputs of a usual record, and small enough to stay in a
// processor's cache.
const arenaChunk = 32 << 10

// arena has the bytes of the outputs of one unit of work, in a chunk that the next unit uses again.
// So encoding a record costs no allocation of its own.
type arena struct {
	chunk []byte
	// free is the rest of the chunk: length 0, and the capacity is what is left.
	free []byte
}

// reset begins a unit of work: what was taken before is over.
func (a *arena) reset() { a.free = a.chunk[:0] }

// take returns v encoded by codec, in memory that is used for no other value until reset. It is
// never nil without an error.
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
		a.chunk = make([]byte, 0, arenaChunk)
		a.free = a.chunk
	}
	return a.free
}

// keep returns the bytes that were appended to room, in memory that is used for no other value
// until reset. It is never nil.
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
