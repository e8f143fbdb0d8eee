package topology

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology/graph"
)

// Rows returns the codecs of the store of that name; ok is false if the topology has none.
func (t *Topology) Rows(store string) (rows graph.Rows, ok bool) {
	for _, sub := range t.subtopologies {
		for _, s := range sub.stores {
			if s.name == store {
				return s.rows, s.rows.Keys.Parse != nil
			}
		}
	}
	for _, g := range t.globals {
		if g.store.name == store {
			return g.store.rows, g.store.rows.Keys.Parse != nil
		}
	}
	return graph.Rows{}, false
}

// Records returns the codecs of a topic that the topology reads, by its name on the cluster; ok is
// false if it reads no such topic. Key and Value of the result fail for a null, unless the codec is
// Nullable.
func (t *Topology) Records(topic string) (rows graph.Rows, ok bool) {
	for _, sub := range t.subtopologies {
		for _, n := range sub.sources {
			if n.topic.pattern != nil && n.topic.pattern.matches(topic) || n.topic.pattern == nil && n.topic.on(t.application) == topic {
				return n.rows, n.rows.Keys.Parse != nil
			}
		}
	}
	for _, g := range t.globals {
		if g.topic == topic {
			return g.records, g.records.Keys.Parse != nil
		}
	}
	return graph.Rows{}, false
}

// Written returns the codecs of a topic that the topology writes, by its name on the cluster. For
// other topics ok is false. The dead-letter topic has none: a dead letter keeps the bytes
// of its record.
func (t *Topology) Written(topic string) (rows graph.Rows, ok bool) {
	for _, sub := range t.subtopologies {
		for _, n := range sub.nodes {
			if n.kind == sinkNode && n.topic.on(t.application) == topic {
				return n.rows, n.rows.Keys.Parse != nil
			}
		}
	}
	return graph.Rows{}, false
}

// rows returns the codecs of the topic for tools; those of a topic without codecs, which is a
// mistake that Build reports, are none.
func (t *TopicOf[K, V]) rows() graph.Rows {
	if t.key.codec == nil || t.value.codec == nil {
		return graph.Rows{}
	}
	rows := rowsOf(t.key.codec, t.value.codec)
	rows.Keys.Decode = func(b []byte) (any, error) { return present(t.key.decode(b)) }
	rows.Values.Decode = func(b []byte) (any, error) { return present(t.value.decode(b)) }
	return rows
}

// present returns what an [Option] holds, nil for the absent one, and anything else as it is: an
// Option has no JSON form.
func present[T any](v T, err error) (any, error) {
	if o, ok := any(v).(interface{ held() any }); ok {
		return o.held(), err
	}
	return v, err
}

func rowsOf[K, V any](key schemas.Codec[K], value schemas.Codec[V]) graph.Rows {
	return graph.Rows{Keys: rowCodec(key), Values: rowCodec(value)}
}

func rowCodec[T any](codec schemas.Codec[T]) graph.RowCodec {
	return graph.RowCodec{
		Parse:  func(text string) ([]byte, error) { return parseText(codec, text) },
		Decode: func(b []byte) (any, error) { return present(codec.Decode(b)) },
		Format: codec.Name(), Type: reflect.TypeFor[T]().String(),
	}
}

// parseText encodes what a text stands for.
func parseText[T any](codec schemas.Codec[T], text string) ([]byte, error) {
	var v T
	if err := readText(&v, text); err != nil {
		return nil, err
	}
	return codec.Append([]byte{}, v)
}

// readText sets v to the value that a text stands for. A text is never null, so an [Option] holds
// it.
func readText[T any](v *T, text string) error {
	if o, ok := any(v).(interface{ hold(text string) error }); ok {
		return o.hold(text)
	}
	switch to := reflect.ValueOf(v).Elem(); {
	case to.Kind() == reflect.String:
		to.SetString(text)
	case to.Kind() == reflect.Slice && to.Type().Elem().Kind() == reflect.Uint8:
		to.SetBytes([]byte(text))
	default:
		in := json.NewDecoder(strings.NewReader(text))
		in.DisallowUnknownFields() // or a misspelt member would be left out, and the rest taken
		err := in.Decode(v)
		_, behind := in.Token()
		if err != nil || !errors.Is(behind, io.EOF) {
			// The errors of encoding/json quote what they could not read.
			return schemas.Reason("its JSON form is expected, with the members that it has and no others")
		}
	}
	return nil
}
