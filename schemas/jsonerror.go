package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// The errors of encoding/json quote: the character that does not fit, the number
// out of range, the text that a ",string" field could not parse. They are
// translated here into reasons made of what is known without the payload: kinds
// of JSON values, Go types, and names of fields that T declares.

// unmarshalFault returns the offset and the reason of an error of json.Unmarshal
// on an input of n bytes.
func (c jsonCodec[T]) unmarshalFault(err error, n int) (int, string) {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return syntaxFault(e, n)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, hasText := strings.Cut(e.Value, " ")
		if hasText && kind == "number" {
			kind += " out of range"
		}
		reason := fmt.Sprintf("JSON %s does not fit Go type %s", kind, e.Type)
		if c.known(e.Field) {
			reason += " of field " + e.Field
		}
		return int(min(max(e.Offset, 0), int64(n))), reason
	}
	return -1, fmt.Sprintf("document does not fit Go type %s: %s", reflect.TypeFor[T](), ReasonOf(err))
}

// syntaxFault looks at the text of e to choose between fixed reasons; nothing of
// it is passed on.
func syntaxFault(e *json.SyntaxError, n int) (int, string) {
	text := e.Error()
	switch {
	case text == "unexpected end of JSON input":
		return n, reasonEnd
	case strings.HasSuffix(text, "after top-level value"):
		return int(e.Offset) - 1, reasonTrailing
	default:
		return int(min(max(e.Offset-1, 0), int64(n))), "malformed JSON"
	}
}

// known reports whether path is a dotted chain of names of T's fields. Depending
// on how encoding/json was built, map keys, which are payload, can be part of the
// path of an error.
func (c jsonCodec[T]) known(path string) bool {
	if path == "" {
		return false
	}
	for name := range strings.SplitSeq(path, ".") {
		if _, ok := c.fields[name]; !ok {
			return false
		}
	}
	return true
}

// collectFields adds to names the JSON names of all fields of t and of the types
// that its fields, elements and keys lead to.
func collectFields(t reflect.Type, names map[string]struct{}, seen map[reflect.Type]struct{}) {
	if _, ok := seen[t]; ok {
		return
	}
	seen[t] = struct{}{}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		collectFields(t.Elem(), names, seen)
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			names[name] = struct{}{}
			collectFields(f.Type, names, seen)
		}
	default:
		// Scalars have no fields, and the fields of the value behind an
		// interface or a channel are not T's.
	}
}

// marshalReason returns the reason of an error of json.Encoder.Encode.
func marshalReason(err error) string {
	if e, ok := errors.AsType[*json.UnsupportedTypeError](err); ok {
		return fmt.Sprintf("JSON has no form for Go type %s", e.Type)
	}
	if _, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
		return "JSON has no form for the value: NaN, an infinity or a cycle"
	}
	if e, ok := errors.AsType[*json.MarshalerError](err); ok {
		return fmt.Sprintf("marshaling Go type %s: %s", e.Type, ReasonOf(e.Err))
	}
	return ReasonOf(err)
}
