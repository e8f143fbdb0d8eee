package topology

import "github.com/onceward/onceward/schemas"

// Option is a value that may be absent. The zero Option is absent. It is comparable if T is.
type Option[T any] struct {
	value T
	ok    bool
}

// Some returns an Option that holds v.
func Some[T any](v T) Option[T] { return Option[T]{value: v, ok: true} }

// None returns the absent Option.
func None[T any]() Option[T] { return Option[T]{} }

// Get returns the value, and whether there is one.
func (o Option[T]) Get() (value T, ok bool) { return o.value, o.ok }

// Or returns the value, or def if there is none.
func (o Option[T]) Or(def T) T {
	if o.ok {
		return o.value
	}
	return def
}

// held returns the value for tools, nil if it is absent.
func (o Option[T]) held() any {
	if !o.ok {
		return nil
	}
	return o.value
}

// hold sets the value from the text form that a user of a tool has typed.
func (o *Option[T]) hold(text string) error {
	o.ok = true
	return readText(&o.value, text)
}

// Nullable returns a codec for nullable keys or values of topics. Null is the absent Option, in
// both directions; codec encodes all other values. A null and an empty string are two different
// keys.
//
// Without Nullable, reading a null is an error of class Poison, with one exception: for the Go type
// []byte, null and nil are the same, and nil and empty differ.
//
// Stores have no nulls (a deleted entry is absent), so a store with a Nullable codec is a mistake
// that Build reports.
func Nullable[T any](codec schemas.Codec[T]) schemas.Codec[Option[T]] {
	if codec == nil {
		return nil
	}
	return nullable[T]{codec}
}

type nullable[T any] struct{ codec schemas.Codec[T] }

func (n nullable[T]) Name() string { return "nullable:" + n.codec.Name() }

// Append refuses the absent Option: a null has no bytes. Topics look at Null first.
func (n nullable[T]) Append(dst []byte, v Option[T]) ([]byte, error) {
	if !v.ok {
		return dst, &schemas.Error{
			Codec: n.Name(), Op: schemas.OpAppend, Offset: -1,
			Reason: "a null has no encoding outside a topic",
		}
	}
	return n.codec.Append(dst, v.value)
}

func (n nullable[T]) Decode(b []byte) (Option[T], error) {
	v, err := n.codec.Decode(b)
	if err != nil {
		return Option[T]{}, err
	}
	return Some(v), nil
}

// Lend makes a view of what the codec lends.
func (n nullable[T]) Lend(b []byte) (Option[T], error) {
	lender := lenderOf(n.codec)
	if lender == nil {
		return n.Decode(b)
	}
	v, err := lender.Lend(b)
	if err != nil {
		return Option[T]{}, err
	}
	return Some(v), nil
}

func (n nullable[T]) lends() bool { return lenderOf(n.codec) != nil }

// lenderOf returns the codec as one that lends, nil if it does not.
func lenderOf[T any](codec schemas.Codec[T]) schemas.Lender[T] {
	if n, ok := codec.(interface{ lends() bool }); ok && !n.lends() {
		return nil
	}
	lender, _ := codec.(schemas.Lender[T])
	return lender
}

// Null reports whether v stands for null.
func (n nullable[T]) Null(v Option[T]) bool { return !v.ok }

// format is a codec with what a topic adds to it: the nulls.
type format[T any] struct {
	codec schemas.Codec[T]
	// lender is the codec if it lends.
	lender schemas.Lender[T]
	// null reports whether a value stands for null; nil if there is no such value. Null is then the
	// zero T.
	null func(T) bool
	// present makes sure that a value that was read from bytes does not look like null; nil where
	// it cannot.
	present func(T) T
}

func formatOf[T any](codec schemas.Codec[T]) format[T] {
	f := format[T]{codec: codec, lender: lenderOf(codec)}
	if n, ok := codec.(interface{ Null(v T) bool }); ok {
		f.null = n.Null
		return f
	}
	if null, ok := any(isNilBytes).(func(T) bool); ok {
		f.null = null
		f.present, _ = any(nonNilBytes).(func(T) T)
	}
	return f
}

func isNilBytes(b []byte) bool { return b == nil }

func nonNilBytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

const errNull = schemas.Reason("is null, and the codec of the topic takes no null; topology.Nullable makes one that does")

func (f *format[T]) decode(b []byte) (T, error) {
	if b == nil {
		var null T
		if f.null == nil {
			return null, errNull
		}
		return null, nil
	}
	v, err := f.codec.Decode(b)
	if err == nil && f.present != nil {
		v = f.present(v)
	}
	return v, err
}

// lend is decode for a source: the value may refer to b if the codec lends.
func (f *format[T]) lend(b []byte) (T, error) {
	if f.lender == nil || b == nil {
		return f.decode(b)
	}
	v, err := f.lender.Lend(b)
	if err == nil && f.present != nil {
		v = f.present(v)
	}
	return v, err
}

// encode returns nil for null, and never nil for anything else. The result is never written to
// again. It is in memory of its own if a is nil.
func (f *format[T]) encode(a *arena, v T) ([]byte, error) {
	if f.null != nil && f.null(v) {
		return nil, nil
	}
	if a == nil {
		return f.codec.Append([]byte{}, v)
	}
	return take(a, f.codec, v)
}

// partKey is the part of a [graph.PartError] that is about the key.
const partKey = "key"
