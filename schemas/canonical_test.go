package schemas_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
)

func TestCanonicalJSON(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"white space", " {\t\"a\" :\n[ 1 ,\r2 ] } ", `{"a":[1,2]}`},
		{"literals", `[true,false,null]`, `[true,false,null]`},
		{"empty", `[{},[],""]`, `[{},[],""]`},
		{"key order", `{"b":1,"a":2,"":3}`, `{"":3,"a":2,"b":1}`},
		{"key order in depth", `{"z":{"b":[{"y":1,"x":2}],"a":0},"a":{"d":1,"c":2}}`,
			`{"a":{"c":2,"d":1},"z":{"a":0,"b":[{"x":2,"y":1}]}}`},
		{"key order by unescaped bytes", `{"\\":1,"\"":2,"a":3,"]":4}`, `{"\"":2,"\\":1,"]":4,"a":3}`},
		// As UTF-8 U+FFFD is before U+1F600, as UTF-16 it is behind it.
		{"key order by UTF-8", `{"\ud83d\ude00":1,"\ufffd":2}`, "{\"\ufffd\":2,\"\U0001f600\":1}"},
		{"array order stays", `[3,1,2]`, `[3,1,2]`},
		{"escapes",
			`"\u0041\/\"\\\b\f\n\r\t\u0001\u001F\u007f"`, "\"A/\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\""},
		{"unicode", `"\u00e9\u2028\ud83d\ude00"`, "\"é\u2028\U0001f600\""},
		{"escaped keys", `{"\u0062":1,"\u0061":{"\u0064":1,"\u0063":"\u0065"}}`, `{"a":{"c":"e","d":1},"b":1}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := schemas.CanonicalJSON([]byte("dst"), []byte(test.src))
			if err != nil || string(got) != "dst"+test.want {
				t.Fatalf("%s\ngave %s, %v\nwant dst%s", test.src, got, err, test.want)
			}
			again, err := schemas.CanonicalJSON(nil, got[3:])
			if err != nil || string(again) != test.want {
				t.Errorf("the canonical form of %s is %s, %v", got[3:], again, err)
			}
		})
	}
}

func TestCanonicalNumbers(t *testing.T) {
	nines, ones := strings.Repeat("9", 30), strings.Repeat("1", 400)
	groups := []struct {
		want      string
		spellings []string
	}{
		{"0", []string{"0", "-0", "0.0", "-0.000", "0e0", "0E-7", "0e" + nines, "-0.0e-" + nines}},
		{"1", []string{"1", "1.0", "1e0", "10e-1", "0.1e1", "100E-2", "1e-0", "1e+000", "0.001e3"}},
		{"-15e-1", []string{"-1.5", "-15e-1", "-0.15E+1", "-1.500", "-150e-2"}},
		{"1e2", []string{"100", "1e2", "1E+2", "100.0", "0.01e4", "1e0002"}},
		{"129e-1", []string{"12.9", "12.90", "1290e-2"}},
		{"9007199254740993", []string{"9007199254740993", "9007199254740993.0", "9007199254740.993e3"}},
		{ones, []string{ones, ones + ".0", ones + "0e-1"}},
		{"1e" + nines, []string{"1e" + nines, "1E+00" + nines, "0.1e1" + strings.Repeat("0", 30)}},
		{"1e1" + strings.Repeat("0", 30), []string{"10e" + nines, "1000e" + strings.Repeat("9", 29) + "7"}},
		{"1e-1" + strings.Repeat("0", 30), []string{"0.1e-" + nines, "10e-1" + strings.Repeat("0", 29) + "1"}},
		// Both sides of the border between exponents with and without int64.
		{"1e999999999999999999", []string{"0.1e1000000000000000000", "10e999999999999999998"}},
		{"1e1000000000000000000", []string{"10e999999999999999999", "1e1000000000000000000"}},
		{"1e-999999999999999999", []string{"10e-1000000000000000000", "0.1e-999999999999999998"}},
		{"1e-1000000000000000000", []string{"0.1e-999999999999999999", "0.01e-999999999999999998"}},
		{"1e-1000000000000000001", []string{"0.1e-1000000000000000000"}},
		{"1e1000000000000000002", []string{"1000e999999999999999999"}},
	}
	seen := make(map[[32]byte]string)
	for _, group := range groups {
		for _, spelling := range group.spellings {
			got, err := schemas.CanonicalJSON(nil, []byte(spelling))
			if err != nil || string(got) != group.want {
				t.Errorf("%.60s gave %.60s, %v, want %.60s", spelling, got, err, group.want)
			}
			hash, err := schemas.HashJSON([]byte("[" + spelling + "]"))
			if err != nil {
				t.Error(err)
			}
			if other, ok := seen[hash]; ok && other != group.want {
				t.Errorf("%.60s and %.60s have one hash", other, group.want)
			}
			seen[hash] = group.want
		}
	}
	if len(seen) != len(groups) {
		t.Errorf("%d hashes for %d numbers", len(seen), len(groups))
	}
}

// A document of a few bytes must not be able to ask for a long number.
func TestCanonicalHugeExponent(t *testing.T) {
	src := []byte(`{"amount":1e999999999,"rate":-1.5E-888888888}`)
	got, err := schemas.CanonicalJSON(nil, src)
	if want := `{"amount":1e999999999,"rate":-15e-888888889}`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	long := []byte("1e" + strings.Repeat("9", 8<<20))
	if got, err = schemas.CanonicalJSON(nil, long); err != nil || string(got) != string(long) {
		t.Errorf("an exponent of 8 MiB: %d bytes, %v", len(got), err)
	}
}

// canary is planted in payloads; no error may contain it.
const canary = codectest.Canary

func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// malformed has documents without a canonical form, and where and why.
var malformed = []struct {
	name, src string
	offset    int64
	reason    string
}{
	{"nothing", ``, 0, "end"},
	{"white space", " \n", 2, "end"},
	{"byte order mark", "\ufeff{}", 0, "beginning of a JSON value"},
	{"bare word", canary, 0, "beginning of a JSON value"},
	{"literal", `[nul]`, 4, "unknown literal"},
	{"literal cut short", `tru`, 3, "end"},
	{"trailing", `{} ` + canary, 3, "data after"},
	{"two documents", `1 2`, 2, "data after"},
	{"leading zero", `[01]`, 2, "number"},
	{"leading zero of a negative", `-00`, 2, "number"},
	{"bare minus", `-`, 1, "end"},
	{"minus word", `-x`, 1, "number"},
	{"plus", `+1`, 0, "beginning of a JSON value"},
	{"bare point", `.5`, 0, "beginning of a JSON value"},
	{"point at the end", `[1.]`, 3, "number"},
	{"no exponent", `[1e]`, 3, "number"},
	{"two exponent signs", `[1e+-1]`, 4, "number"},
	{"hexadecimal", `0x10`, 1, "data after"},
	{"not a number", `NaN`, 0, "beginning of a JSON value"},
	{"open string", `"` + canary, int64(1 + len(canary)), "end"},
	{"open escape", `"\`, 2, "end"},
	{"control character", "\"a\n\"", 2, "control character"},
	{"unknown escape", `"a\x41"`, 2, "escape"},
	{"short escape", `"a\u12"`, 2, "escape"},
	{"bad hexadecimal", `"a\u12g4"`, 2, "escape"},
	{"lone high surrogate", `"a\ud800"`, 2, "surrogate"},
	{"high surrogate and text", `"a\ud800b"`, 2, "surrogate"},
	{"lone low surrogate", `"a\udc00"`, 2, "surrogate"},
	{"surrogates in the wrong order", `"\udc00\ud800"`, 1, "surrogate"},
	{"two high surrogates", `"\ud800\ud800\udc00"`, 1, "surrogate"},
	{"high surrogate at the end", `"\ud83d\u00e9"`, 1, "surrogate"},
	{"invalid UTF-8", "\"" + canary + "\xff\"", int64(1 + len(canary)), "UTF-8"},
	{"overlong UTF-8", "\"\xc0\x80\"", 1, "UTF-8"},
	{"UTF-8 surrogate", "\"\xed\xa0\x80\"", 1, "UTF-8"},
	{"UTF-8 cut short by the quote", "\"\xe2\x82\"", 1, "UTF-8"},
	{"invalid UTF-8 in a key", "{\"\xff\":1}", 2, "UTF-8"},
	{"bare key", `{` + canary + `:1}`, 1, "object key"},
	{"number as key", `{1:1}`, 1, "object key"},
	{"no colon", `{"` + canary + `"1}`, int64(3 + len(canary)), "colon"},
	{"no value", `{"a":}`, 5, "beginning of a JSON value"},
	{"no comma in object", `{"a":1 "b":2}`, 7, "comma or the end of the object"},
	{"comma at the end of object", `{"a":1,}`, 7, "object key"},
	{"object closed as array", `{"a":1]`, 6, "end of the object"},
	{"no comma in array", `[1 2]`, 3, "comma or the end of the array"},
	{"comma at the end of array", `[1,]`, 3, "beginning of a JSON value"},
	{"array closed as object", `[1}`, 2, "end of the array"},
	{"open object", `{"a":1`, 6, "end"},
	{"open array", `[1,`, 3, "end"},
	{"duplicate", `{"` + canary + `":1,"b":2,"` + canary + `":1}`, int64(12 + len(canary)), "duplicate"},
	{"duplicate of another spelling", `{"a":1,"\u0061":1}`, 7, "duplicate"},
	{"duplicate in depth", `[{"x":{"k":1,"a":2,"k":3}}]`, 19, "duplicate"},
	{"too deep", deep(schemas.MaxJSONDepth + 1), schemas.MaxJSONDepth, "deeper"},
	{"far too deep", strings.Repeat(`{"a":`, 1<<20), 5 * schemas.MaxJSONDepth, "deeper"},
}

func TestCanonicalMalformed(t *testing.T) {
	for _, test := range malformed {
		t.Run(test.name, func(t *testing.T) {
			dst := []byte("dst")
			got, err := schemas.CanonicalJSON(dst, []byte(test.src))
			e, ok := errors.AsType[*schemas.Error](err)
			if !ok {
				t.Fatalf("gave %s, %v", got, err)
			}
			if string(got) != "dst" {
				t.Errorf("dst came back as %q", got)
			}
			if e.Offset != test.offset || !strings.Contains(e.Reason, test.reason) {
				t.Errorf("%v, want byte %d and %q", err, test.offset, test.reason)
			}
			if e.Op != schemas.OpCanonicalize || e.Err != nil || strings.Contains(err.Error(), canary) {
				t.Errorf("error is %#v", e)
			}
			if _, hashErr := schemas.HashJSON([]byte(test.src)); hashErr == nil || hashErr.Error() != err.Error() {
				t.Errorf("HashJSON fails with %v", hashErr)
			}
		})
	}
	if _, err := schemas.HashJSON([]byte(deep(schemas.MaxJSONDepth))); err != nil {
		t.Errorf("a document as deep as the limit: %v", err)
	}
}

// TestCanonicalNoPayload plants the canaries at every place of a document.
func TestCanonicalNoPayload(t *testing.T) {
	const number = codectest.CanaryNumber
	src := `{"text":"\u0041 ` + canary + `","list":[true,-1.5e3,null],"n":{"` + canary + `":1}}`
	failures := 0
	for i := range len(src) + 1 {
		for _, word := range []string{canary, number, `"` + canary + `"`, "\xff", ""} {
			for _, rest := range []string{src[i:], ""} {
				_, err := schemas.HashJSON([]byte(src[:i] + word + rest))
				if err == nil {
					continue
				}
				failures++
				text := err.Error()
				if strings.Contains(text, canary) || strings.Contains(text, number) {
					t.Fatalf("quotes the payload: %s", text)
				}
			}
		}
	}
	if failures < len(src) {
		t.Errorf("only %d inputs failed", failures)
	}
}

// TestHashJSONGolden pins the hash, which is stored in state: if it fails, the
// canonical form has changed and every stored hash is void.
func TestHashJSONGolden(t *testing.T) {
	const form = `{"account":"DE-4471-0093","amount":"129.90","currency":"EUR","eventId":"01JD8Q7ZK3M5X9",` +
		`"fee":125e-2,"occurredAt":"2025-11-21T10:15:30.123Z","reference":"order 88123",` +
		`"type":"PaymentCaptured","version":7}`
	const want = "061fa76f28c3224d77309e909ace52de0a4bb0b7f6f8ad45a77e4540a174e8ca"
	got, err := schemas.CanonicalJSON(nil, []byte(payment))
	if err != nil || string(got) != form {
		t.Errorf("canonical form is %s, %v", got, err)
	}
	hash, err := schemas.HashJSON([]byte(payment))
	if err != nil || hex.EncodeToString(hash[:]) != want {
		t.Errorf("hash is %x, %v", hash, err)
	}
	if hash != sha256.Sum256([]byte(form)) {
		t.Error("hash is not the SHA-256 of the canonical form")
	}
}
