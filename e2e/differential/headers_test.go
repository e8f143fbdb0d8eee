package differential

import "github.com/onceward/onceward/topology"

// headers are the operators that change headers. All others keep those of the record that they have at hand, which their cases show.
var headers = map[string]operator{
	"map-headers": {declare: func(b *topology.Builder) {
		topology.MapHeaders(source(b), "seen", func(r in) ([]topology.Header, error) {
			return append(without(r.Headers, "drop"), topology.Header{Key: "seen", Value: []byte{1}}), nil
		}).Into(out)
	}},
	"map-headers-to-none": {declare: func(b *topology.Builder) {
		topology.MapHeaders(source(b), "no-headers", func(in) ([]topology.Header, error) { return nil, nil }).Into(out)
	}},
	"with-header": {declare: func(b *topology.Builder) {
		topology.Map(source(b), "seen", func(r in) (in, error) { return r.WithHeader("id", []byte{2}), nil }).Into(out)
	}},
	// What is built from nothing has the headers and the timestamp of the record that it is built of.
	"map-from-nothing": {declare: func(b *topology.Builder) {
		topology.Map(source(b), "new", func(r in) (in, error) { return in{Key: r.Key, Value: topology.Some(r.Value.Or(-1))}, nil }).Into(out)
	}},
}

// without returns the headers with other names, in memory of their own.
func without(all []topology.Header, name string) []topology.Header {
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
		topology.MapHeaders(source(b), "seen", func(r in) ([]topology.Header, error) {
			return append(without(r.Headers, "dropped"), topology.Header{Key: "seen", Value: []byte{1}}), nil
		}).Into(out)
	}},
	"headers that get lost": {"peek", func(b *topology.Builder) {
		topology.MapHeaders(source(b), "look", func(in) ([]topology.Header, error) { return nil, nil }).Into(out)
	}},
	"an empty header for a null": {"filter", func(b *topology.Builder) {
		topology.MapHeaders(source(b).Filter("even", even), "empty", func(r in) ([]topology.Header, error) {
			var all []topology.Header
			for _, h := range r.Headers {
				all = append(all, topology.Header{Key: h.Key, Value: append([]byte{}, h.Value...)})
			}
			return all, nil
		}).Into(out)
	}},
}
