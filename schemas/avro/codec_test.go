package avro

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
)

// record is the value type of the codecs under test here: the record as it is.
type record = map[string]any

func asIs(r record) (record, error) { return r, nil }

// everything has all of Avro's types, recursion included.
const everything = `{"type":"record","name":"Everything","namespace":"test","fields":[
	{"name":"null","type":"null"},
	{"name":"boolean","type":"boolean"},
	{"name":"int","type":"int"},
	{"name":"long","type":"long"},
	{"name":"float","type":"float"},
	{"name":"double","type":"double"},
	{"name":"bytes","type":"bytes"},
	{"name":"string","type":"string","default":"unset"},
	{"name":"enum","type":{"type":"enum","name":"Suit","symbols":["HEARTS","SPADES"]}},
	{"name":"fixed","type":{"type":"fixed","name":"Four","size":4}},
	{"name":"array","type":{"type":"array","items":["null","string"]}},
	{"name":"nulls","type":{"type":"array","items":"null"}},
	{"name":"map","type":{"type":"map","values":{"type":"map","values":"int"}}},
	{"name":"decimal","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
	{"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"next","type":["null","Everything"]}]}`

func everythingCodec(t testing.TB) schemas.Codec[record] {
	t.Helper()
	codec, err := New(everything, asIs, asIs)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

func everythingValue() record {
	return record{
		"null": nil, "boolean": true, "int": int32(-3), "long": int64(1) << 40,
		"float": float32(0.5), "double": -2.25,
		"bytes": []byte(codectest.Canary), "string": codectest.Canary, "enum": "SPADES", "fixed": []byte("abcd"),
		"array": []any{nil, Union("string", codectest.Canary), Union("string", "")},
		"nulls": []any{nil, nil},
		"map": map[string]any{
			"b":              map[string]any{"y": int32(1), "x": int32(2), codectest.Canary: int32(3)},
			"a":              map[string]any{},
			codectest.Canary: map[string]any{"z": int32(4), "zz": int32(5), "a": int32(6)},
		},
		"decimal": big.NewRat(12345, 100),
		"time":    time.UnixMilli(1700000000123).UTC(),
		"next":    nil,
	}
}

func nested(depth int) record {
	v := everythingValue()
	for range depth {
		outer := everythingValue()
		outer["next"] = Union("test.Everything", v)
		v = outer
	}
	return v
}

func TestConformance(t *testing.T) {
	codectest.Run(t, everythingCodec(t), everythingValue(), nested(1))
}

func with(key string, v any) record {
	r := everythingValue()
	r[key] = v
	return r
}

func without(key string) record {
	r := everythingValue()
	delete(r, key)
	return r
}

// TestAppendRefuses checks the reasons, which replace the library's own errors.
func TestAppendRefuses(t *testing.T) {
	const canary = codectest.Canary
	deep := with("next", Union("test.Everything", with("array", []any{Union("string", 1)})))
	tests := []struct {
		name  string
		value record
		want  string
	}{
		{"nil", nil, "field null: missing"},
		{"missing", without("double"), "field double: missing"},
		{"missing with a default", without("string"), "field string: missing"},
		{"misspelt", func() record {
			r := without("string")
			r[canary] = canary
			return r
		}(), "field string: missing"},
		{"too much", with(canary, canary), "keys that are not fields of record test.Everything"},
		{"null", with("null", canary), "null wants nil, got string"},
		{"boolean", with("boolean", canary), "field boolean: boolean wants bool, got string"},
		{"int", with("int", canary), "field int: int wants int32, got string"},
		{"int out of range", with("int", int64(1)<<40), "field int: number is out of range"},
		{"long not whole", with("long", 1.5), "field long: number is out of range or not whole"},
		{"long as string", with("long", codectest.CanaryNumber), "field long: long wants int64, got string"},
		{"double", with("double", []byte(canary)), "double wants float64, got []uint8"},
		{"string", with("string", 1), "field string: string wants string, got int"},
		{"string not UTF-8", with("string", canary+"\xff"), "field string: text is not valid UTF-8"},
		{"map key not UTF-8", with("map", map[string]any{canary + "\xff": map[string]any{}}), "field map: text"},
		{"enum", with("enum", canary), "field enum: enum test.Suit has no such symbol"},
		{"fixed", with("fixed", canary), "field fixed: fixed test.Four wants a []byte of length 4"},
		{"array", with("array", canary), "does not fit"},
		{"array item", with("array", []any{nil, canary}), "field array: union wants nil or a map"},
		{"union branch", with("array", []any{Union(canary, 1)}), "field array: union has no such branch"},
		{"two branches", with("array", []any{record{canary: 1, "string": 2}}), "one branch"},
		{"map value", with("map", map[string]any{"a": record{canary: canary}}), "field map: int wants int32"},
		{"decimal", with("decimal", canary), "does not fit"},
		{"nested", deep, "field next.array: string wants string, got int"},
		{"too deep", nested(MaxDepth), "deeper than 512 levels"},
		{"too many values", with("nulls", make([]any, MaxValues)), "field nulls: more than"},
		{"too large", with("bytes", make([]byte, MaxBytes)), "larger than the limit"},
		// The library has no answer to a nil decimal but a panic.
		{"panic", with("decimal", (*big.Rat)(nil)), "does not fit the schema"},
	}
	codec := everythingCodec(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			codectest.Refuses(t, codec, test.value)
			_, err := codec.Append(nil, test.value)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestMapsInOrder: encodings of maps with many entries, at two levels, are equal.
// The library writes them in a random order.
func TestMapsInOrder(t *testing.T) {
	codec := everythingCodec(t)
	maps := record{}
	for i := range 40 {
		inner := record{}
		for j := range 10 {
			inner[fmt.Sprint("key", j*7)] = int32(j)
		}
		maps[strings.Repeat("k", 100-i)+fmt.Sprint(i)] = inner
	}
	first, err := codec.Append(nil, with("map", maps))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := codec.Append([]byte("x"), with("map", maps))
		if err != nil || !bytes.Equal(again[1:], first) {
			t.Fatalf("another encoding of the same value, or %v", err)
		}
	}
}

// valueOf returns a value of the schema with the header of the codec and the given
// binary form.
func valueOf(t *testing.T, codec schemas.Codec[record], binaryForm ...byte) []byte {
	t.Helper()
	var sum uint64
	if _, err := fmt.Sscanf(codec.Name(), "avro:%x", &sum); err != nil {
		t.Fatal(err)
	}
	return append(binary.LittleEndian.AppendUint64([]byte{0xc3, 0x01}, sum), binaryForm...)
}

func long(n int64) []byte { return binary.AppendVarint(nil, n) }

// TestDecodeRefuses checks the layout rules, one field at a time. Offsets count from
// the start of the value, whose header has ten bytes.
func TestDecodeRefuses(t *testing.T) {
	tests := []struct {
		name, typ string
		body      []byte
		offset    int64 // -2 for any
		want      string
	}{
		{"nothing", `"int"`, nil, 10, "unexpected end"},
		{"data behind", `"int"`, []byte{0, 0}, 11, "data after the value"},
		{"boolean", `"boolean"`, []byte{2}, 10, "neither 0 nor 1"},
		{"int of six bytes", `"int"`, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}, 15, "too many bytes"},
		{"int of 33 bits", `"int"`, []byte{0xff, 0xff, 0xff, 0xff, 0x1f}, 10, "32 bits"},
		{"long of eleven bytes", `"long"`, bytes.Repeat([]byte{0x80}, 11), 19, "too many bytes"},
		{"long of 65 bits", `"long"`, append(bytes.Repeat([]byte{0xff}, 9), 2), 19, "too many bytes"},
		{"float", `"float"`, []byte{1, 2, 3}, 13, "unexpected end"},
		{"double", `"double"`, make([]byte, 7), 17, "unexpected end"},
		{"negative length", `"bytes"`, long(-1), 10, "negative length"},
		{"least length", `"bytes"`, long(-1 << 63), 10, "negative length"},
		{"long bytes", `"bytes"`, append(long(3), 'a', 'b'), 13, "unexpected end"},
		{"length of everything", `"string"`, long(1<<63 - 1), 20, "unexpected end"},
		{"not UTF-8", `"string"`, append(long(2), 'a', 0xff), 11, "field f: text is not valid UTF-8"},
		{"fixed", `{"type":"fixed","name":"F","size":3}`, []byte{1, 2}, 12, "unexpected end"},
		{"enum", `{"type":"enum","name":"E","symbols":["A"]}`, long(1), 10, "no such symbol"},
		{"negative enum", `{"type":"enum","name":"E","symbols":["A"]}`, long(-1), 10, "no such symbol"},
		{"union", `["null"]`, long(1), 10, "no such branch"},
		{"array without end", `{"type":"array","items":"int"}`, []byte{2, 2}, 12, "unexpected end"},
		{"huge array of nulls", `{"type":"array","items":"null"}`, long(1<<31 - 1), 10, "more than"},
		{"array of everything", `{"type":"array","items":"null"}`, long(1<<63 - 1), 10, "more than"},
		{"least count", `{"type":"array","items":"null"}`, append(long(-1<<63), 0), 10, "impossible"},
		{"block too large", `{"type":"array","items":"int"}`, append(long(-1), 100), 10, "impossible"},
		{"block of another size", `{"type":"array","items":"int"}`, []byte{1, 4, 2, 0, 0}, 10, "another size"},
		{"many blocks", `{"type":"array","items":"null"}`, bytes.Repeat(long(1<<19), 3), -2, "more than"},
		{"huge map", `{"type":"map","values":"null"}`, long(1<<31 - 1), 10, "more than"},
		{"key not UTF-8", `{"type":"map","values":"null"}`, []byte{2, 2, 0xff, 0}, 12, "UTF-8"},
		{"key twice", `{"type":"map","values":"null"}`, []byte{4, 2, 'a', 2, 'a', 0}, -1, "a map has a key twice"},
		{"recursion", `["null","R"]`, bytes.Repeat([]byte{2}, 1<<20), -2, "deeper than"},
		{"endless", `{"type":"record","name":"S","fields":[{"name":"s","type":"S"}]}`, nil, 10, "deeper than"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			codec, err := New(`{"type":"record","name":"R","fields":[{"name":"f","type":`+test.typ+`}]}`, asIs, asIs)
			if err != nil {
				t.Fatal(err)
			}
			v, err := codec.Decode(valueOf(t, codec, test.body...))
			e, ok := errors.AsType[*schemas.Error](err)
			if !ok {
				t.Fatalf("gave %v, %v", v, err)
			}
			if !strings.Contains(e.Reason, test.want) || e.Offset != test.offset && test.offset != -2 {
				t.Errorf("%v, want byte %d and %q", err, test.offset, test.want)
			}
			if e.Err != nil {
				t.Errorf("wraps %v", e.Err)
			}
		})
	}
}

// TestDecodeAccepts has layouts that our Append does not write but others may.
func TestDecodeAccepts(t *testing.T) {
	const schema = `{"type":"record","name":"R","fields":[{"name":"f","type":{"type":"array","items":"int"}}]}`
	codec, err := New(schema, asIs, asIs)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{
		"two blocks":         {2, 2, 2, 4, 0},
		"block with a size":  {3, 4, 2, 4, 0},
		"needless zero byte": {0x84, 0x00, 2, 4, 0},
	} {
		v, err := codec.Decode(valueOf(t, codec, body...))
		if err != nil || fmt.Sprint(v) != "map[f:[1 2]]" {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

func TestDecodeHeader(t *testing.T) {
	codec := everythingCodec(t)
	value, err := codec.Append(nil, everythingValue())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		input  []byte
		offset int64
		want   string
	}{
		{"nothing", nil, 0, "unexpected end"},
		{"one byte", value[:1], 1, "unexpected end"},
		{"half a fingerprint", value[:6], 6, "unexpected end"},
		{"registry framing", []byte("\x00\x00\x00\x00\x07" + codectest.Canary), 0, "schema registry"},
		{"text", []byte(codectest.Canary), 0, "not single-object encoding"},
		{"another version", append([]byte{0xc3, 0x02}, value[2:]...), 1, "not single-object encoding"},
		{"too large", make([]byte, MaxBytes+1), MaxBytes, "larger than the limit"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := codec.Decode(test.input)
			e, ok := errors.AsType[*schemas.Error](err)
			if !ok || e.Offset != test.offset || !strings.Contains(e.Reason, test.want) {
				t.Errorf("error is %v, want byte %d and %q", err, test.offset, test.want)
			}
		})
	}
}

func TestDecodeOtherSchema(t *testing.T) {
	writer, reader := FlightCodec(), everythingCodec(t)
	value, err := writer.Append(nil, Flight{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = reader.Decode(value)
	mismatch, ok := errors.AsType[*FingerprintError](err)
	if !ok {
		t.Fatalf("error is %v", err)
	}
	if "avro:"+fmt.Sprintf("%016x", mismatch.Got) != writer.Name() ||
		"avro:"+fmt.Sprintf("%016x", mismatch.Want) != reader.Name() {
		t.Errorf("fingerprints are %x and %x", mismatch.Got, mismatch.Want)
	}
	for _, name := range []string{writer.Name(), reader.Name()} {
		if !strings.Contains(err.Error(), strings.TrimPrefix(name, "avro:")) {
			t.Errorf("%q does not name %s", err, name)
		}
	}
}

// TestConversionErrors: texts of user errors are shown only where they are vouched
// for.
func TestConversionErrors(t *testing.T) {
	const schema = `{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}`
	quoting := errors.New("cannot use " + codectest.Canary)
	vouched := fmt.Errorf("value %s: %w", codectest.Canary, schemas.Reason("a has no colon"))
	for _, test := range []struct {
		err  error
		want string
	}{{quoting, "text withheld"}, {vouched, "a has no colon"}} {
		codec, err := New(schema,
			func(r record) (record, error) {
				if r["a"] == "" {
					return r, nil
				}
				return nil, test.err
			},
			func(record) (record, error) { return record{"a": codectest.Canary}, test.err })
		if err != nil {
			t.Fatal(err)
		}
		codectest.Refuses(t, codec, record{"a": codectest.Canary})
		_, appendErr := codec.Append(nil, record{"a": codectest.Canary})
		value, err := codec.Append(nil, record{"a": ""})
		if err != nil {
			t.Fatal(err)
		}
		v, decodeErr := codec.Decode(value)
		if v != nil {
			t.Errorf("an error and a value: %v", v)
		}
		for _, err := range []error{appendErr, decodeErr} {
			if err == nil || !strings.Contains(err.Error(), test.want) ||
				strings.Contains(err.Error(), codectest.Canary) {
				t.Errorf("error is %v, want one with %q and without the canary", err, test.want)
			}
		}
	}
}

func TestFieldHelpers(t *testing.T) {
	r := record{"name": "x", "tail": nil, "origin": Union("string", "EWR"), "count": Union("int", int32(1))}
	if v, err := Field[string](r, "name"); v != "x" || err != nil {
		t.Errorf("Field: %v, %v", v, err)
	}
	if v, ok, err := OptionalField[string](r, "origin", "string"); v != "EWR" || !ok || err != nil {
		t.Errorf("OptionalField: %v, %v, %v", v, ok, err)
	}
	if v, ok, err := OptionalField[string](r, "tail", "string"); v != "" || ok || err != nil {
		t.Errorf("OptionalField of null: %v, %v, %v", v, ok, err)
	}
	if Optional("int", 3, false) != nil || fmt.Sprint(Optional("int", 3, true)) != "map[int:3]" {
		t.Error("Optional is wrong")
	}
	_, missing := Field[string](r, "nothing")
	_, other := Field[int32](r, "name")
	_, _, noField := OptionalField[string](r, "nothing", "string")
	_, _, noUnion := OptionalField[string](r, "name", "string")
	_, _, otherBranch := OptionalField[string](r, "count", "string")
	for err, want := range map[error]string{
		missing:     "record has no field nothing",
		other:       "field name: want int32, got string",
		noField:     "record has no field nothing",
		noUnion:     "field name: want union of null and string, got string",
		otherBranch: "field count: want union of null and string, got map[string]interface {}",
	} {
		if err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
		if _, ok := errors.AsType[schemas.Reason](err); !ok {
			t.Errorf("%v is not a Reason", err)
		}
	}
}
