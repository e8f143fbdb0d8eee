package topology

import "github.com/onceward/onceward/topology/graph"

// lastHeader returns the index of the header with that key that counts, the last one, or -1.
func lastHeader(headers []Header, key string) int {
	for i := len(headers) - 1; i >= 0; i-- {
		if headers[i].Key == key {
			return i
		}
	}
	return -1
}

// withoutHeader returns headers itself if there is nothing to leave out.
func withoutHeader(headers []Header, key string) []Header {
	if lastHeader(headers, key) < 0 {
		return headers
	}
	kept := make([]Header, 0, len(headers)-1)
	for _, h := range headers {
		if h.Key != key {
			kept = append(kept, h)
		}
	}
	return kept
}

// withHeader returns headers and one more, in memory of their own.
func withHeader(headers []Header, key string, value []byte) []Header {
	out := make([]Header, len(headers)+1)
	copy(out, headers)
	out[len(headers)] = Header{Key: key, Value: value}
	return out
}

// withoutDeadLetterHeaders returns headers without those of dead letters. It allocates nothing if
// these are at the end, as usual: the header of [KeepOrigin] is the last one, and a redrive writes
// the record's own headers first.
func withoutDeadLetterHeaders(headers []Header) []Header {
	n := 0
	for n < len(headers) && !graph.IsDeadLetterHeader(headers[n].Key) {
		n++
	}
	kept := headers[:n:n]
	if n == 0 {
		kept = nil
	}
	for _, h := range headers[n:] {
		if !graph.IsDeadLetterHeader(h.Key) {
			kept = append(kept, h)
		}
	}
	return kept
}
