package avro

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/linkedin/goavro/v2"

	"github.com/onceward/onceward/schemas"
)

// headerSize is the size in bytes of the marker C3 01 and the fingerprint in front
// of every value.
const headerSize = 10

// codec is immutable; goavro's codec is, too.
type codec[T any] struct {
	name        string
	fingerprint uint64
	header      [headerSize]byte
	root        *shape
	// The library's codec of the schema without defaults.
	library *goavro.Codec
	// hasBytes: decoded values hold slices of the library's input.
	// hasMaps: encodings have entries to be put in order.
	hasBytes, hasMaps bool
	toNative          func(T) (map[string]any, error)
	fromNative        func(map[string]any) (T, error)
}

// New returns the codec of T as the Avro record that schema, in Avro's JSON form,
// describes. Its name is "avro:" and the schema's fingerprint as 16 hexadecimal
// digits.
//
// toNative turns a value into the record to write, fromNative a read record into a value. A record
// is a map with every field of the schema by its name and nothing else. Defaults do not replace
// missing fields: they are meant for readers, and would hide a misspelt name. The Go types are
// those of goavro:
//
//	null      nil                  float, double  float32, float64
//	boolean   bool                 bytes, fixed   []byte
//	int       int32                array          []any
//	long      int64                map            map[string]any
//	string    string               record         map[string]any
//	enum      string               union          nil, or map[string]any{branch: value}
//
// and *big.Rat, time.Time and time.Duration for logical types. Slices that
// fromNative is given belong to the value that it returns, but may share one
// array. See [Union], [Optional], [Field] and [OptionalField].
//
// Both functions must be safe for concurrent use, must not keep the map, and are
// called once per value. A record must be a tree: one that contains itself cannot be
// written and exhausts the stack. The texts of their errors are withheld, since they could
// quote the value, unless the error is a schemas.Reason; panics are not recovered.
//
// New fails if the schema is not valid, has no record at its top, or uses one of
// the few things that goavro and Avro's specification understand differently.
func New[T any](
	schema string, toNative func(T) (map[string]any, error), fromNative func(map[string]any) (T, error),
) (schemas.Codec[T], error) {
	if toNative == nil || fromNative == nil {
		return nil, errors.New("avro: New needs both conversion functions")
	}
	var c compiler
	root, withoutDefaults, err := c.compile(schema)
	if err != nil {
		return nil, fmt.Errorf("avro: schema: %w", err)
	}
	// The full schema only so that the library checks its defaults.
	if _, err := newLibraryCodec(schema); err != nil {
		return nil, fmt.Errorf("avro: schema: %w", err)
	}
	library, err := newLibraryCodec(withoutDefaults)
	if err != nil {
		return nil, fmt.Errorf("avro: schema without defaults: %w", err)
	}
	sum := fingerprint(canonicalForm(root))
	codec := codec[T]{
		name:        fmt.Sprintf("avro:%016x", sum),
		fingerprint: sum,
		header:      [headerSize]byte{0xc3, 0x01},
		root:        root,
		library:     library,
		hasBytes:    c.hasBytes,
		hasMaps:     c.hasMaps,
		toNative:    toNative,
		fromNative:  fromNative,
	}
	binary.LittleEndian.PutUint64(codec.header[2:], sum)
	return &codec, nil
}

// newLibraryCodec is goavro.NewCodec for schemas that come from users.
func newLibraryCodec(schema string) (c *goavro.Codec, err error) {
	defer func() {
		if p := recover(); p != nil {
			c, err = nil, fmt.Errorf("the Avro library panicked: %v", p)
		}
	}()
	return goavro.NewCodec(schema)
}

func (c *codec[T]) Name() string { return c.name }

func (c *codec[T]) Append(dst []byte, v T) ([]byte, error) {
	refuse := func(reason string) ([]byte, error) {
		return dst, &schemas.Error{Codec: c.name, Op: schemas.OpAppend, Offset: -1, Reason: reason}
	}
	record, err := c.toNative(v)
	if err != nil {
		return refuse("conversion to a record: " + schemas.ReasonOf(err))
	}
	if len(record) > len(c.root.fields) {
		return refuse(mismatch(c.root, record)) // what is too much would be dropped
	}
	out, ok := c.encode(append(dst, c.header[:]...), record)
	if !ok {
		return refuse(mismatch(c.root, record))
	}
	if len(out)-len(dst) > MaxBytes {
		return refuse(fmt.Sprintf("larger than the limit of %d bytes", MaxBytes))
	}
	w := walker{b: out[len(dst)+headerSize:], sortMaps: c.hasMaps}
	if !w.run(c.root) {
		return refuse(w.reason())
	}
	return out, nil
}

// encode appends the binary form of record. The library's errors quote values; they
// are dropped and explained by mismatch, as is a panic.
func (c *codec[T]) encode(dst []byte, record map[string]any) (out []byte, ok bool) {
	defer func() {
		if recover() != nil {
			out, ok = nil, false
		}
	}()
	out, err := c.library.BinaryFromNative(dst, record)
	return out, err == nil
}

func (c *codec[T]) Decode(b []byte) (T, error) {
	var zero T
	refuse := func(at int, reason string, err error) (T, error) {
		return zero, &schemas.Error{
			Codec: c.name, Op: schemas.OpDecode, Offset: int64(at), Reason: reason, Err: err,
		}
	}
	if len(b) > MaxBytes {
		return refuse(MaxBytes, fmt.Sprintf("larger than the limit of %d bytes", MaxBytes), nil)
	}
	if !bytes.HasPrefix(b, c.header[:]) {
		at, reason, err := c.headerFault(b)
		return refuse(at, reason, err)
	}
	body := b[headerSize:]
	w := walker{b: body}
	if !w.run(c.root) {
		return refuse(headerSize+w.at, w.reason(), nil)
	}
	if c.hasBytes {
		body = bytes.Clone(body)
	}
	record, ok := c.decode(body)
	if !ok {
		// The layout is right, so this is what only the library looks at.
		return refuse(-1, "a map has a key twice, or a logical type refuses its value", nil)
	}
	v, err := c.fromNative(record)
	if err != nil {
		return refuse(-1, "conversion from a record: "+schemas.ReasonOf(err), nil)
	}
	return v, nil
}

// headerFault says what is wrong with the header of b.
func (c *codec[T]) headerFault(b []byte) (at int, reason string, err error) {
	for i, marker := range c.header[:2] {
		switch {
		case i == len(b):
			return i, reasonShort, nil
		case i == 0 && b[0] == 0:
			return 0, "not single-object encoding; it may be framed for a schema registry", nil
		case b[i] != marker:
			return i, "not single-object encoding", nil
		}
	}
	if len(b) < headerSize {
		return len(b), reasonShort, nil
	}
	got := binary.LittleEndian.Uint64(b[2:])
	return 2, "written with another schema", &FingerprintError{Want: c.fingerprint, Got: got}
}

// decode builds the record that body, which a walker has checked, holds. The
// library's errors and panics quote values and are dropped.
func (c *codec[T]) decode(body []byte) (record map[string]any, ok bool) {
	defer func() {
		if recover() != nil {
			record, ok = nil, false
		}
	}()
	native, rest, err := c.library.NativeFromBinary(body)
	if err != nil || len(rest) > 0 {
		return nil, false
	}
	record, ok = native.(map[string]any)
	return record, ok
}
