package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/onceward/onceward/schemas"
)

// Rows turns the keys and values of a store into bytes and back, for tools that know a store by its name only. In a key-value store these are
// the rows; rows of every other kind have times beside them, and are taken apart by [state.Layout.Parts]. It is immutable and safe for
// concurrent use.
type Rows struct {
	parseKey, parseValue func(text string) ([]byte, error)
	decodeKey            func(b []byte) (any, error)
	decodeValue          func(b []byte) (any, error)
	keyFormat, of        string
	valueFormat, valueOf string
}

// Rows returns the codecs of the store of that name; ok is false if the topology has none.
func (t *Topology) Rows(store string) (rows Rows, ok bool) {
	for _, sub := range t.subtopologies {
		for _, s := range sub.stores {
			if s.name == store {
				return s.rows, s.rows.parseKey != nil
			}
		}
	}
	return Rows{}, false
}

// Records returns the codecs of a topic that the topology reads, by its name on the cluster; ok is false if it reads no
// such topic. Key and Value of the result fail for a null, unless the codec is Nullable.
func (t *Topology) Records(topic string) (rows Rows, ok bool) {
	for _, sub := range t.subtopologies {
		for _, n := range sub.sources {
			if n.topic.on(t.application) == topic {
				return n.rows, n.rows.parseKey != nil
			}
		}
	}
	return Rows{}, false
}

// rows returns the codecs of the topic for tools; those of a topic without codecs, which is a mistake that Build reports,
// are none.
func (t *TopicOf[K, V]) rows() Rows {
	if t.key.codec == nil || t.value.codec == nil {
		return Rows{}
	}
	rows := rowsOf(t.key.codec, t.value.codec)
	rows.decodeKey = func(b []byte) (any, error) { return present(t.key.decode(b)) }
	rows.decodeValue = func(b []byte) (any, error) { return present(t.value.decode(b)) }
	return rows
}

// present returns what an [Option] holds, nil for the absent one, and anything else as it is: an Option has no JSON form.
func present[T any](v T, err error) (any, error) {
	if o, ok := any(v).(interface{ held() any }); ok {
		return o.held(), err
	}
	return v, err
}

// ParseKey returns the bytes of a key that somebody has typed: the text itself where the Go type is a string or []byte, and otherwise its
// JSON form. The error does not contain the text.
func (r Rows) ParseKey(text string) ([]byte, error) {
	b, err := r.parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("the key is no %s (%s): %w", r.of, r.keyFormat, err)
	}
	return b, nil
}

// ParseValue returns the bytes of a value that somebody has typed, as ParseKey does for a key.
func (r Rows) ParseValue(text string) ([]byte, error) {
	b, err := r.parseValue(text)
	if err != nil {
		return nil, fmt.Errorf("the value is no %s (%s): %w", r.valueOf, r.valueFormat, err)
	}
	return b, nil
}

// Key decodes a key. The result has a JSON form.
func (r Rows) Key(b []byte) (any, error) { return r.decodeKey(b) }

// Value decodes a value. The result has a JSON form.
func (r Rows) Value(b []byte) (any, error) { return r.decodeValue(b) }

func rowsOf[K, V any](key schemas.Codec[K], value schemas.Codec[V]) Rows {
	return Rows{
		parseKey:    func(text string) ([]byte, error) { return parseText(key, text) },
		parseValue:  func(text string) ([]byte, error) { return parseText(value, text) },
		decodeKey:   func(b []byte) (any, error) { return present(key.Decode(b)) },
		decodeValue: func(b []byte) (any, error) { return present(value.Decode(b)) },
		keyFormat:   key.Name(), of: reflect.TypeFor[K]().String(),
		valueFormat: value.Name(), valueOf: reflect.TypeFor[V]().String(),
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

// readText sets v to what a text stands for. What is typed is never null, so an [Option] holds it.
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
