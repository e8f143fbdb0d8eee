package conformance

import "github.com/onceward/onceward/topology"

// headerOperators are the operators that change headers. All others keep those of the record that
// they have at hand, which their cases show.
var headerOperators = map[string]operator{
	"map-headers": {declare: func(b *topology.Builder) {
		topology.MapHeaders(anyInput(b), "seen", func(r inRecord) ([]topology.Header, error) {
			return append(headersWithout(r.Headers, "drop"), topology.Header{Key: "seen", Value: []byte{1}}), nil
		}).Into(outTopic)
	}},
	"map-headers-to-none": {declare: func(b *topology.Builder) {
		topology.MapHeaders(anyInput(b), "no-headers", func(inRecord) ([]topology.Header, error) { return nil, nil }).Into(outTopic)
	}},
	"with-header": {declare: func(b *topology.Builder) {
		topology.Map(anyInput(b), "seen", func(r inRecord) (inRecord, error) { return r.WithHeader("id", []byte{2}), nil }).Into(outTopic)
	}},
	// What is built from nothing has the headers and the timestamp of the record that it is built
	// of.
	"map-from-nothing": {declare: func(b *topology.Builder) {
		topology.Map(anyInput(b), "new", func(r inRecord) (inRecord, error) {
			return inRecord{Key: r.Key, Value: topology.Some(r.Value.Or(-1))}, nil
		}).Into(outTopic)
	}},
}

// headersWithout returns the headers with other names, in memory of their own.
func headersWithout(all []topology.Header, name string) []topology.Header {
	var kept []topology.Header
	for _, h := range all {
		if h.Key != name {
			kept = append(kept, h)
		}
	}
	return kept
}

var headerControls = map[string]control{
	"a header that stays": {"map-headers", func(b *topology.Builder) {
		topology.MapHeaders(anyInput(b), "seen", func(r inRecord) ([]topology.Header, error) {
			return append(headersWithout(r.Headers, "dropped"), topology.Header{Key: "seen", Value: []byte{1}}), nil
		}).Into(outTopic)
	}},
	"headers that get lost": {"peek", func(b *topology.Builder) {
		topology.MapHeaders(anyInput(b), "look", func(inRecord) ([]topology.Header, error) { return nil, nil }).Into(outTopic)
	}},
	"an empty header for a null": {"filter", func(b *topology.Builder) {
		topology.MapHeaders(anyInput(b).Filter("even", even), "empty", func(r inRecord) ([]topology.Header, error) {
			var all []topology.Header
			for _, h := range r.Headers {
				all = append(all, topology.Header{Key: h.Key, Value: append([]byte{}, h.Value...)})
			}
			return all, nil
		}).Into(outTopic)
	}},
}
