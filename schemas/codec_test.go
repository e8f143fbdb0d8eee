package schemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
)

func TestStringConformance(t *testing.T) {
	codec := schemas.String()
	codectest.Run(t, codec, "", "key", codectest.Canary, "Zürich 東京 \U0001f6eb\x00")
	codectest.Refuses(t, codec, codectest.Canary+"\xff", "\xed\xa0\x80"+codectest.Canary)
}

func TestBytesConformance(t *testing.T) {
	codectest.Run(t, schemas.Bytes(), []byte{}, []byte("\x00\xff"+codectest.Canary))
}

func TestIntegerConformance(t *testing.T) {
	codectest.Run(t, schemas.Int32(), 0, 1, -1, math.MaxInt32, math.MinInt32)
	codectest.Run(t, schemas.Int64(), 0, 1, -1, math.MaxInt64, math.MinInt64)
}

func TestBytesNeverNil(t *testing.T) {
	v, err := schemas.Bytes().Decode(nil)
	if v == nil || len(v) != 0 || err != nil {
		t.Errorf("Decode(nil) = %#v, %v", v, err)
	}
}

// TestGoldenBytes pins the layouts that other Kafka clients read.
func TestGoldenBytes(t *testing.T) {
	check := func(name string, got []byte, err error, want string) {
		t.Helper()
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	b, err := schemas.Int32().Append(nil, -2)
	check("int32", b, err, "\xff\xff\xff\xfe")
	b, err = schemas.Int64().Append(nil, 0x0102030405060708)
	check("int64", b, err, "\x01\x02\x03\x04\x05\x06\x07\x08")
	b, err = schemas.String().Append(nil, "é")
	check("string", b, err, "\xc3\xa9")
	b, err = schemas.JSON[map[string]any]().Append(nil, map[string]any{"b": "<&>", "a": 1})
	check("json", b, err, `{"a":1,"b":"<&>"}`)
}

func TestNames(t *testing.T) {
	names := map[string]string{
		schemas.String().Name(): "string", schemas.Bytes().Name(): "bytes",
		schemas.Int32().Name(): "int32", schemas.Int64().Name(): "int64",
		schemas.JSON[int]().Name(): "json",
	}
	for got, want := range names {
		if got != want {
			t.Errorf("name %q, want %q", got, want)
		}
	}
}

func TestFixedLength(t *testing.T) {
	for n := range 20 {
		if _, err := schemas.Int32().Decode(make([]byte, n)); (err == nil) != (n == 4) {
			t.Errorf("Int32 of %d bytes: %v", n, err)
		}
		if _, err := schemas.Int64().Decode(make([]byte, n)); (err == nil) != (n == 8) {
			t.Errorf("Int64 of %d bytes: %v", n, err)
		}
	}
}

// document has a field of every kind that encoding/json reports in its own way.
type document struct {
	ID      string          `json:"id"`
	Amount  int32           `json:"amount"`
	Count   uint8           `json:"count"`
	Ratio   float32         `json:"ratio"`
	Quoted  int64           `json:"quoted,string"`
	Number  json.Number     `json:"number"`
	Blob    []byte          `json:"blob"`
	Raw     json.RawMessage `json:"raw"`
	Tags    map[string]int8 `json:"tags"`
	Ages    map[int8]bool   `json:"ages"`
	Lines   []line          `json:"lines"`
	Flag    bool            `json:"flag"`
	Strict  strict          `json:"strict"`
	Text    upper           `json:"text"`
	Pointer *line           `json:"pointer"`
}

type line struct {
	Price int64 `json:"price"`
}

// strict refuses in its own words, which may be shown; upper quotes, which may not.
type (
	strict string
	upper  string
)

func (s *strict) UnmarshalJSON(b []byte) error {
	if string(b) != `"ok"` {
		return schemas.Reason("strict takes one value only")
	}
	*s = "ok"
	return nil
}

func (u *upper) UnmarshalText(b []byte) error {
	if !bytes.Equal(b, bytes.ToUpper(b)) {
		return fmt.Errorf("not upper case: %s", b)
	}
	*u = upper(b)
	return nil
}

func sample() document {
	return document{
		ID: codectest.Canary, Amount: -7, Count: 9, Ratio: 0.5, Quoted: 12, Number: "1.10",
		Blob: []byte(codectest.Canary), Raw: json.RawMessage(`"` + codectest.Canary + `"`),
		Tags: map[string]int8{codectest.Canary: 1, "b": 2}, Ages: map[int8]bool{3: true},
		Lines: []line{{Price: 5}}, Flag: true, Strict: "ok", Text: "A", Pointer: &line{Price: 1},
	}
}

func TestJSONConformance(t *testing.T) {
	codectest.Run(t, schemas.JSON[document](), sample())
	codectest.Run(t, schemas.JSON[map[string]string](),
		nil, map[string]string{"b": codectest.Canary, "a": "\u2028<"})
	codectest.Run(t, schemas.JSON[*line](), nil, &line{Price: 3})
	codectest.Run(t, schemas.JSON[any](), nil, codectest.Canary, 1.5, true)
	codectest.Refuses[any](t, schemas.JSON[any](), math.NaN(), math.Inf(1), make(chan int), func() {},
		json.Number(codectest.Canary), json.RawMessage(codectest.Canary), quoting{})
	codectest.Refuses(t, schemas.JSON[map[string]any](), map[string]any{codectest.Canary: math.NaN()})
}

// quoting fails to marshal with a text that holds its content.
type quoting struct{}

func (quoting) MarshalJSON() ([]byte, error) { return nil, errors.New(codectest.Canary) }

func TestJSONDecodeErrors(t *testing.T) {
	tests := []struct {
		name, input string
		offset      int64 // -2 for any
		reason      string
	}{
		{"empty", ``, 0, "unexpected end"},
		{"cut short", `{"id":`, 6, "unexpected end"},
		{"trailing", `{} x`, 3, "data after"},
		{"two documents", `{}{}`, 2, "data after"},
		{"syntax", `{"id":?}`, 6, "malformed JSON"},
		{"wrong kind", `{"id":1}`, 7, "JSON number does not fit Go type string of field id"},
		{"overflow", `{"amount":` + codectest.CanaryNumber + `}`, -2, "number out of range"},
		{"fraction", `{"amount":1.5}`, -2, "Go type int32 of field amount"},
		{"nested", `{"lines":[{"price":"` + canary + `"}]}`, -2, "JSON string does not fit Go type int64 of field"},
		{"map value", `{"tags":{"` + canary + `":1000}}`, -2, "Go type int8"},
		{"map key", `{"ages":{"` + canary + `":true}}`, -2, "out of range"},
		{"quoted", `{"quoted":"` + canary + `"}`, -1, "text withheld"},
		{"number literal", `{"number":"` + canary + `"}`, -1, "text withheld"},
		{"base64", `{"blob":"` + canary + `!"}`, -1, "text withheld"},
		{"refused with a reason", `{"strict":"` + canary + `"}`, -1, "strict takes one value only"},
		{"refused with a quote", `{"text":"` + canary + `"}`, -1, "text withheld"},
		{"invalid UTF-8", "{\"id\":\"" + canary + "\xff\"}", int64(7 + len(canary)), "UTF-8"},
		{"lone high surrogate", `{"id":"` + canary + `\ud800"}`, int64(7 + len(canary)), "lone surrogate"},
		{"lone low surrogate", `{"id":"\\\udc00"}`, 9, "lone surrogate"},
		{"two high surrogates", `{"id":"\ud83d\ud83d"}`, 7, "lone surrogate"},
		{"too deep", strings.Repeat("[", 20000), -2, "malformed JSON"},
	}
	codec := schemas.JSON[document]()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := codec.Decode([]byte(test.input))
			e, ok := errors.AsType[*schemas.Error](err)
			if !ok {
				t.Fatalf("error is %v", err)
			}
			if !strings.Contains(e.Reason, test.reason) {
				t.Errorf("reason %q, want %q", e.Reason, test.reason)
			}
			if e.Offset != test.offset && test.offset != -2 {
				t.Errorf("offset %d, want %d", e.Offset, test.offset)
			}
			if e.Err != nil {
				t.Errorf("wraps %v; errors of encoding/json quote", e.Err)
			}
			text := err.Error()
			if strings.Contains(text, canary) || strings.Contains(text, codectest.CanaryNumber) {
				t.Errorf("quotes the payload: %s", text)
			}
		})
	}
}

func TestJSONDecodeAccepts(t *testing.T) {
	codec := schemas.JSON[document]()
	for _, input := range []string{
		`{}`, " \n{}\t\r", `{"unknown":{"id":1},"id":"x"}`, `{"id":"\ud83d\ude00 \\ud800"}`, `null`,
	} {
		if _, err := codec.Decode([]byte(input)); err != nil {
			t.Errorf("%s: %v", input, err)
		}
	}
}

func TestJSONSizeLimit(t *testing.T) {
	codec := schemas.JSON[string]()
	exact := strings.Repeat("x", schemas.MaxJSONBytes-2)
	b, err := codec.Append(nil, exact)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := codec.Decode(b); err != nil || v != exact {
		t.Fatalf("a document of the limit's size does not come back: %v", err)
	}
	_, err = codec.Append(nil, exact+"x")
	if e, ok := errors.AsType[*schemas.Error](err); !ok || !strings.Contains(e.Reason, "larger than") {
		t.Errorf("Append over the limit: %v", err)
	}
	_, err = codec.Decode(append(b, ' '))
	if e, ok := errors.AsType[*schemas.Error](err); !ok || !strings.Contains(e.Reason, "larger than") {
		t.Errorf("Decode over the limit: %v", err)
	}
}

func TestJSONPointerReceiver(t *testing.T) {
	b, err := schemas.JSON[loud]().Append(nil, loud{})
	if err != nil || string(b) != `"loud"` {
		t.Errorf("Append = %s, %v", b, err)
	}
}

type loud struct{}

func (*loud) MarshalJSON() ([]byte, error) { return []byte(`"loud"`), nil }

func TestReasonOf(t *testing.T) {
	inner := &schemas.Error{Codec: "int64", Op: schemas.OpDecode, Offset: 3, Reason: "too short"}
	tests := []struct {
		err  error
		want string
	}{
		{schemas.Reason("no tail"), "no tail"},
		{fmt.Errorf("%s: %w", codectest.Canary, schemas.Reason("no tail")), "no tail"},
		{fmt.Errorf("%s: %w", codectest.Canary, inner), "too short"},
	}
	for _, test := range tests {
		if got := schemas.ReasonOf(test.err); got != test.want {
			t.Errorf("ReasonOf(%v) = %q, want %q", test.err, got, test.want)
		}
	}
	if got := schemas.ReasonOf(errors.New(codectest.Canary)); strings.Contains(got, codectest.Canary) {
		t.Errorf("ReasonOf quotes: %q", got)
	}
}

func TestErrorText(t *testing.T) {
	e := &schemas.Error{Codec: "json", Op: schemas.OpDecode, Offset: 17, Reason: "malformed JSON"}
	if got := e.Error(); got != "schemas: decode json: byte 17: malformed JSON" {
		t.Error(got)
	}
	e = &schemas.Error{Codec: "x", Op: schemas.OpAppend, Offset: -1, Reason: "a", Err: schemas.Reason("b")}
	if got := e.Error(); got != "schemas: append x: a: b" || !errors.Is(e, schemas.Reason("b")) {
		t.Error(got)
	}
}
