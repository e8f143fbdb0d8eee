// Package payload hashes the payloads of records, so that processors can tell the copy of a fact
// from another fact under its id. Package inbox documents what the payload of a record is.
//
// A declaration holds how payloads are compared as a value of one of these types:
//
//	nil                 by the JSON form of the value, or by its bytes
//	schemas.Codec[V]    by what the codec makes of the value
//	Hasher[K, V]        by the hash that a function returns
//	Without             by the JSON form, without some members
//
// Hashes are stored and never change. A hasher belongs to one task; everything else is safe for
// concurrent use.
package payload

import (
	"cmp"
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Hasher returns the hash of a record's payload, zeros for null. Its error has no class unless a
// function of the user has given it one.
type Hasher[K, V any] func(r topology.Record[K, V]) ([32]byte, error)

// HasherFor returns what makes the hasher of a task; declared is what the options say, or nil. The
// error is a mistake of the declaration.
func HasherFor[K, V any](declared any) (func() Hasher[K, V], error) {
	if declared == nil {
		codec, err := payloadCodec[V]()
		return func() Hasher[K, V] { return codecHasher[K](codec) }, err
	}
	switch payload := declared.(type) {
	case Without:
		codec, err := payloadCodec[V]()
		names, nameErr := payload.canonical()
		return func() Hasher[K, V] { return hasherWithout[K](codec, names) }, cmp.Or(err, nameErr)
	case Hasher[K, V]:
		return func() Hasher[K, V] { return payload }, nil
	case schemas.Codec[V]:
		return func() Hasher[K, V] { return codecHasher[K](payload) }, nil
	}
	return nil, fmt.Errorf("the payload is declared for other types than those of the stream, whose keys "+
		"are %s and values %s", reflect.TypeFor[K](), reflect.TypeFor[V]())
}

// Clause says for the consumer contract how payloads are compared, where that was declared.
func Clause(declared any) string {
	switch payload := declared.(type) {
	case nil:
		return ""
	case Without:
		names := make([]string, len(payload))
		for i, name := range payload {
			names[i] = strconv.Quote(name)
		}
		return "payloads are compared without the members " + strings.Join(names, ", ") + " of their JSON object"
	case interface{ Name() string }:
		return fmt.Sprintf("payloads are compared as the codec %q writes them", payload.Name())
	}
	return "payloads are compared by a hash that the program makes of the record"
}

// scratchBytesMax is the size of the largest buffer that a task keeps between two records.
const scratchBytesMax = 64 << 10

// codecHasher hashes what codec makes of the value.
func codecHasher[K, V any](codec schemas.Codec[V]) Hasher[K, V] {
	if strings.TrimPrefix(codec.Name(), "nullable:") == schemas.JSON[struct{}]().Name() {
		return encodedHasher[K](codec, schemas.HashJSON)
	}
	return encodedHasher[K](codec, func(b []byte) ([32]byte, error) { return sha256.Sum256(b), nil })
}

// encodedHasher hashes by a function what codec makes of the value; null is the zero hash. The
// buffer is why a hasher belongs to one task.
func encodedHasher[K, V any](codec schemas.Codec[V], hash func(b []byte) ([32]byte, error)) Hasher[K, V] {
	null := nullOf(codec)
	var scratch []byte
	return func(r topology.Record[K, V]) ([32]byte, error) {
		if null(r.Value) {
			return [32]byte{}, nil
		}
		b, err := codec.Append(scratch[:0], r.Value)
		if err != nil {
			return [32]byte{}, err
		}
		if cap(b) <= scratchBytesMax {
			scratch = b
		}
		return hash(b)
	}
}

// nullOf returns what reports whether a value stands for null, to the codec or by its type.
func nullOf[V any](codec schemas.Codec[V]) func(v V) bool {
	if own, ok := codec.(interface{ Null(v V) bool }); ok {
		return own.Null
	}
	return identity.Null[V]()
}

// payloadCodec returns the codec by which payloads are compared if nothing is declared.
func payloadCodec[V any]() (schemas.Codec[V], error) {
	for _, plain := range []any{schemas.String(), schemas.Bytes()} {
		if codec, ok := plain.(schemas.Codec[V]); ok {
			return codec, nil
		}
	}
	t := reflect.TypeFor[V]()
	if what := hiddenFromJSON(t, t.String(), map[reflect.Type]bool{}); what != "" {
		return nil, fmt.Errorf("payloads cannot be compared by their JSON form, because it does not say all of %s; "+
			"declare how with PayloadCodec or PayloadHash", what)
	}
	return schemas.JSON[V](), nil
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// hiddenFromJSON returns the first part of type t whose JSON form loses information of the
// document, empty if there is none: two payloads that differ only there would look alike. Such
// parts are fields that encoding/json leaves out, and numbers that have passed through a float64,
// as those behind an interface do. Types with their own marshal methods are not examined.
func hiddenFromJSON(t reflect.Type, path string, visited map[reflect.Type]bool) string {
	if visited[t] || implements(t, jsonMarshaler) || implements(t, textMarshaler) {
		return ""
	}
	visited[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return hiddenFromJSON(t.Elem(), path, visited)
	case reflect.Map:
		return hiddenFromJSON(t.Elem(), path+"[]", visited)
	case reflect.Struct:
		for i := range t.NumField() {
			if what := hiddenField(t.Field(i), path, visited); what != "" {
				return what
			}
		}
		return sameName(t, path, map[string]bool{}, map[reflect.Type]bool{})
	case reflect.Interface:
		return path + ", which is an interface, whose numbers are of type float64"
	case reflect.Float32, reflect.Float64,
		reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return path + ", which is a " + t.Kind().String()
	default: // JSON says all of it
	}
	return ""
}

func hiddenField(f reflect.StructField, path string, visited map[reflect.Type]bool) string {
	path += "." + f.Name
	switch {
	case f.Tag.Get("json") == "-":
		return path + `, which has the tag json:"-"`
	case !f.IsExported() && embedded(f) == nil:
		return path + ", which is not exported"
	}
	return hiddenFromJSON(f.Type, path, visited)
}

// embedded returns the struct that f embeds, nil if f is another field.
func embedded(f reflect.StructField) reflect.Type {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !f.Anonymous || t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// sameName returns the first field of t, or of a struct that is embedded in it, whose JSON name
// another one has: encoding/json passes over one of the two, or over both. within are the structs
// that t is in, one of which it may point to: encoding/json does not look at that one again.
func sameName(t reflect.Type, path string, names map[string]bool, within map[reflect.Type]bool) string {
	if within[t] {
		return ""
	}
	within[t] = true
	defer delete(within, t)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if inner := embedded(f); inner != nil && name == "" {
			if what := sameName(inner, path+"."+f.Name, names, within); what != "" {
				return what
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		if names[name] {
			return path + "." + f.Name + ", which has the JSON name of another field"
		}
		names[name] = true
	}
	return ""
}

func implements(t, method reflect.Type) bool {
	return t.Implements(method) || reflect.PointerTo(t).Implements(method)
}
