package schemas

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// MaxJSONBytes is the size in bytes of the largest document that the JSON codec
// reads or writes. It is far above what brokers take by default (1 MiB) and bounds
// what one record can make the process allocate.
const MaxJSONBytes = 16 << 20

const reasonTooLarge = "larger than the limit of %d bytes"

type jsonCodec[T any] struct {
	// fields are the JSON names of all struct fields that T can reach: the only
	// names that an error may mention.
	fields map[string]struct{}
}

// JSON returns the codec of T in the JSON form that encoding/json gives it. Its
// name is "json", whatever T is: which documents T can hold is the business of the
// two sides of a topic.
//
// Decode takes one document of at most [MaxJSONBytes] bytes with only white space around it.
// Unknown fields are allowed, since producers are upgraded first. Invalid UTF-8 and lone surrogates
// are errors, because encoding/json would replace them and make different texts equal. Otherwise
// the rules of encoding/json hold. Three of them are surprising. Keys match fields in any case. The
// last of several equal keys wins. A number read into an interface is a float64, so put amounts
// into integer fields or json.Number.
//
// Append writes no line break at the end, does not escape <, > and &, sorts map keys, and honours
// methods with pointer receivers. Two things do not come back: fields that encoding/json leaves out
// (unexported, or tagged "-"), and invalid UTF-8 in Go strings, which is written as U+FFFD.
//
// UnmarshalJSON methods of T must copy what they keep, as encoding/json demands.
// The text of their errors is withheld unless it is a [Reason].
func JSON[T any]() Codec[T] {
	fields := make(map[string]struct{})
	collectFields(reflect.TypeFor[T](), fields, make(map[reflect.Type]struct{}))
	return jsonCodec[T]{fields: fields}
}

func (jsonCodec[T]) Name() string { return "json" }

func (c jsonCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	w := appendWriter{buf: dst}
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	// The address, not the value: MarshalJSON methods with pointer receivers
	// would be passed over silently, while UnmarshalJSON always has one.
	if err := enc.Encode(&v); err != nil {
		return dst, &Error{Codec: c.Name(), Op: OpAppend, Offset: -1, Reason: marshalReason(err)}
	}
	out := w.buf[:len(w.buf)-1] // without the line feed that Encode adds
	if len(out)-len(dst) > MaxJSONBytes {
		return dst, &Error{Codec: c.Name(), Op: OpAppend, Offset: -1,
			Reason: fmt.Sprintf(reasonTooLarge, MaxJSONBytes)}
	}
	return out, nil
}

func (c jsonCodec[T]) Decode(b []byte) (T, error) {
	var zero, v T
	fail := func(at int, reason string) (T, error) {
		return zero, &Error{Codec: c.Name(), Op: OpDecode, Offset: int64(at), Reason: reason}
	}
	if len(b) > MaxJSONBytes {
		return fail(MaxJSONBytes, fmt.Sprintf(reasonTooLarge, MaxJSONBytes))
	}
	if at := invalidUTF8(b); at >= 0 {
		return fail(at, reasonUTF8)
	}
	if at := loneSurrogate(b); at >= 0 {
		return fail(at, reasonSurrogate)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return fail(c.unmarshalFault(err, len(b)))
	}
	return v, nil
}

// appendWriter is an io.Writer over the append built-in; it never fails.
type appendWriter struct{ buf []byte }

func (w *appendWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	return len(p), nil
}
