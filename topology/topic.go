package topology

import (
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology/graph"
)

// TopicOf is a topic with its types. A program makes it once, with [Topic], and uses it wherever
// the topic is read or written, so that the compiler finds a wrong type. It is immutable; any
// number of topologies may share it.
type TopicOf[K, V any] struct {
	name  string
	key   format[K]
	value format[V]
	// partitioner is nil for Kafka's default one.
	partitioner *Partitioner[K, V]
}

// Topic describes the topic of that name on the cluster. See [Nullable] for nulls.
func Topic[K, V any](name string, key schemas.Codec[K], value schemas.Codec[V]) TopicOf[K, V] {
	return TopicOf[K, V]{name: name, key: formatOf(key), value: formatOf(value)}
}

// Name returns the name of the topic.
func (t TopicOf[K, V]) Name() string { return t.name }

// Encode returns the bytes of a key and a value as a sink writes them; nil is null. The caller may
// change the slices.
func (t TopicOf[K, V]) Encode(key K, value V) (keyBytes, valueBytes []byte, err error) {
	if keyBytes, err = t.key.encode(nil, key); err != nil {
		return nil, nil, &graph.PartError{Part: partKey, Err: err}
	}
	if valueBytes, err = t.value.encode(nil, value); err != nil {
		return nil, nil, &graph.PartError{Part: "value", Err: err}
	}
	return keyBytes, valueBytes, nil
}

// Decode returns the key and the value as a source reads them; nil is null. The error names the key
// or the value.
func (t TopicOf[K, V]) Decode(keyBytes, valueBytes []byte) (key K, value V, err error) {
	if key, err = t.key.decode(keyBytes); err != nil {
		return key, value, &graph.PartError{Part: partKey, Err: err}
	}
	if value, err = t.value.decode(valueBytes); err != nil {
		return key, value, &graph.PartError{Part: "value", Err: err}
	}
	return key, value, nil
}

// lend is Decode, with views where the codecs lend.
func (t *TopicOf[K, V]) lend(keyBytes, valueBytes []byte) (key K, value V, err error) {
	if key, err = t.key.lend(keyBytes); err != nil {
		return key, value, &graph.PartError{Part: partKey, Err: err}
	}
	if value, err = t.value.lend(valueBytes); err != nil {
		return key, value, &graph.PartError{Part: "value", Err: err}
	}
	return key, value, nil
}

// sameLenders reports whether sources of both topics lend the same parts.
func (t *TopicOf[K, V]) sameLenders(o *TopicOf[K, V]) bool {
	return (t.key.lender == nil) == (o.key.lender == nil) && (t.value.lender == nil) == (o.value.lender == nil)
}

// formats returns the names of the codecs, and whether there are any.
func (t TopicOf[K, V]) formats() (formats, error) { return formatsOf(t.key.codec, t.value.codec) }
