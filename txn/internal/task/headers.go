package task

import (
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// headers makes the headers of inputs in chunks, in memory that is never used for another record:
// the graph and user code keep them.
type headers struct{ free []graph.Header }

// headersChunk trades a little garbage per kept record for an allocation per chunk.
const headersChunk = 64

// of returns the headers of a record as the graph has them, without room to append to.
func (h *headers) of(hs []broker.RecordHeader) []graph.Header {
	n := len(hs)
	if n == 0 {
		return nil
	}
	if len(h.free) < n {
		h.free = make([]graph.Header, max(n, headersChunk))
	}
	out := h.free[:n:n]
	h.free = h.free[n:]
	for i := range hs {
		out[i] = graph.Header{Key: hs[i].Key, Value: hs[i].Value}
	}
	return out
}
