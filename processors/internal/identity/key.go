package identity

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// KeyCodec returns the codec for keys of type K in a store: given, which must be a
// schemas.Codec[K], or if that is nil the one that schemas has for K. The error is a mistake of the
// declaration.
func KeyCodec[K any](given any) (schemas.Codec[K], error) {
	if given != nil {
		if codec, ok := given.(schemas.Codec[K]); ok {
			return codec, nil
		}
		return nil, fmt.Errorf("Key: the codec is not one for %s, which is the type of the stream's keys",
			reflect.TypeFor[K]())
	}
	for _, known := range []any{schemas.String(), schemas.Bytes(), schemas.Int32(), schemas.Int64()} {
		if codec, ok := known.(schemas.Codec[K]); ok {
			return codec, nil
		}
	}
	return nil, fmt.Errorf("keys of type %s need a codec; give it with the option Key", reflect.TypeFor[K]())
}

// Null returns what reports whether a key or value of type T stands for null, as topics read it: a
// nil []byte, or an absent [topology.Option]. Other types have no null, and none of their values is
// one.
func Null[T any]() func(v T) bool {
	if null, ok := any(func(b []byte) bool { return b == nil }).(func(T) bool); ok {
		return null
	}
	if isOption(reflect.TypeFor[T]()) {
		// The absent Option is the zero Option, and no other one is zero.
		return func(v T) bool { return reflect.ValueOf(&v).Elem().IsZero() }
	}
	return func(T) bool { return false }
}

// isOption goes by the name of the type, since no interface holds for every Option.
func isOption(t reflect.Type) bool {
	option := reflect.TypeFor[topology.Option[struct{}]]()
	generic, _, _ := strings.Cut(option.Name(), "[")
	return t.PkgPath() == option.PkgPath() && strings.HasPrefix(t.Name(), generic+"[")
}
