package schemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
)

// FuzzCanonicalJSON holds the parser against encoding/json: what has a canonical
// form is valid JSON with the same content, and valid JSON has no canonical form
// only where the rules are stricter.
func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{
		payment, `{"b":[1,2.50,-0,1e400],"a":{"\u0061":"\ud83d\ude00\n"}}`, `{"a":1,"\u0061":2}`,
		"\"\xff\"", `"\ud800"`, `[[[]],{},"",null,true,false]`, ` 1 `, `01`, `1e`, `[1,]`, `{"a"}`, "\"a\n\"",
		`1000000e-1000000000000000000`, `0.00001E+99999999999999999999`, "\ufeff1", `"\u12"`, `tru`, `{} {}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		before := bytes.Clone(src)
		form, err := schemas.CanonicalJSON(nil, src)
		if !bytes.Equal(src, before) {
			t.Fatal("the input was changed")
		}
		hash, hashErr := schemas.HashJSON(src)
		if (err == nil) != (hashErr == nil) {
			t.Fatalf("CanonicalJSON: %v, HashJSON: %v", err, hashErr)
		}
		if err != nil {
			e, ok := errors.AsType[*schemas.Error](err)
			if !ok || e.Offset < 0 || e.Offset > int64(len(src)) {
				t.Fatalf("error is %#v", err)
			}
			if json.Valid(src) && !stricter(e.Reason) {
				t.Fatalf("valid JSON is refused: %v", err)
			}
			return
		}
		if !json.Valid(src) || !json.Valid(form) {
			t.Fatalf("valid before: %t, after: %t", json.Valid(src), json.Valid(form))
		}
		if want, got := content(t, src), content(t, form); want != got {
			t.Fatalf("content was\n%s, is\n%s", want, got)
		}
		if again, err := schemas.HashJSON(form); err != nil || again != hash {
			t.Fatalf("the canonical form has another hash (%v)", err)
		}
	})
}

// stricter reports whether a reason is one of those that only the canonical form
// has. Each must be there for a reason of its own, so none is matched by pattern.
func stricter(reason string) bool {
	return slices.Contains([]string{
		"duplicate object key", "text is not valid UTF-8", "lone surrogate in an escape sequence",
		"nested deeper than 512 levels",
	}, reason)
}

// content renders what encoding/json reads, with exact numbers.
func content(t *testing.T, src []byte) string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Fatalf("more than one document: %v", err)
	}
	var out strings.Builder
	render(&out, v)
	return out.String()
}

func render(out *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		out.WriteString("{")
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out.WriteString(strconv.Quote(key))
			out.WriteString(":")
			render(out, v[key])
		}
		out.WriteString("}")
	case []any:
		out.WriteString("[")
		for _, item := range v {
			render(out, item)
			out.WriteString(",")
		}
		out.WriteString("]")
	case json.Number:
		out.WriteString(parse(v).identity())
	case string:
		out.WriteString(strconv.Quote(v))
	case bool:
		out.WriteString(strconv.FormatBool(v))
	default:
		out.WriteString("null")
	}
}

// parse returns the number that a literal spells.
func parse(literal json.Number) number {
	s, negative := strings.CutPrefix(literal.String(), "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	integer, fraction, _ := strings.Cut(mantissa, ".")
	n := number{negative: negative, digits: strings.TrimLeft(integer+fraction, "0"), exponent: new(big.Int)}
	if n.digits == "" {
		n.digits = "0"
	}
	if exponent != "" {
		n.exponent = mustInt(strings.TrimPrefix(exponent, "+"))
	}
	n.exponent.Sub(n.exponent, big.NewInt(int64(len(fraction))))
	return n
}

// FuzzJSONDecode: whatever the bytes are, the codec gives a value that it can write
// again or a proper error.
func FuzzJSONDecode(f *testing.F) {
	f.Add([]byte(payment))
	f.Add([]byte(`{"id":"\ud800","amount":1e99}`))
	codec := schemas.JSON[document]()
	f.Fuzz(func(t *testing.T, src []byte) {
		v, err := codec.Decode(src)
		if err != nil {
			if e, ok := errors.AsType[*schemas.Error](err); !ok || e.Offset > int64(len(src)) || e.Err != nil {
				t.Fatalf("error is %#v", err)
			}
			return
		}
		if !json.Valid(src) {
			t.Fatal("malformed JSON was taken")
		}
		if _, err := codec.Append(nil, v); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzPlainCodecs: the codecs without a format of their own give back exactly the bytes that they
// have read, or refuse them.
func FuzzPlainCodecs(f *testing.F) {
	for _, seed := range []string{"", "text", "\xff", "\x00\x00\x00\x01", "\xff\xff\xff\xff\xff\xff\xff\xff", "\xed\xa0\x80"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		plain(t, schemas.String(), b)
		plain(t, schemas.Bytes(), b)
		plain(t, schemas.Int32(), b)
		plain(t, schemas.Int64(), b)
	})
}

func plain[T any](t *testing.T, codec schemas.Codec[T], b []byte) {
	t.Helper()
	v, err := codec.Decode(b)
	if err != nil {
		e, ok := errors.AsType[*schemas.Error](err)
		if !ok || e.Op != schemas.OpDecode || e.Offset < 0 || e.Offset > int64(len(b)) {
			t.Fatalf("%s: %x: the error is %#v", codec.Name(), b, err)
		}
		return
	}
	if again, err := codec.Append(nil, v); err != nil || !bytes.Equal(again, b) {
		t.Fatalf("%s: %x is written as %x, %v", codec.Name(), b, again, err)
	}
}
