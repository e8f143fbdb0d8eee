package inbox

import "github.com/onceward/onceward/topology"

// withHeader returns r with one header of that key.
func withHeader[K, V any](r topology.Record[K, V], key string, value []byte) topology.Record[K, V] {
	return withoutHeader(r, key).WithHeader(key, value)
}

// withoutHeader returns r without the headers of that key.
func withoutHeader[K, V any](r topology.Record[K, V], key string) topology.Record[K, V] {
	if _, ok := r.Header(key); !ok {
		return r
	}
	headers := make([]topology.Header, 0, len(r.Headers))
	for _, h := range r.Headers {
		if h.Key != key {
			headers = append(headers, h)
		}
	}
	r.Headers = headers[:len(headers):len(headers)]
	return r
}
