package codectest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
)

// broken is the string codec with one part replaced by a faulty one.
type broken struct {
	schemas.Codec[string]
	name   func() string
	append func(dst []byte, v string) ([]byte, error)
	decode func(b []byte) (string, error)
}

func (b broken) Name() string {
	if b.name != nil {
		return b.name()
	}
	return b.Codec.Name()
}

func (b broken) Append(dst []byte, v string) ([]byte, error) {
	if b.append != nil {
		return b.append(dst, v)
	}
	return b.Codec.Append(dst, v)
}

func (b broken) Decode(p []byte) (string, error) {
	if b.decode != nil {
		return b.decode(p)
	}
	return b.Codec.Decode(p)
}

func refusal(offset int64, reason string, wrapped error) error {
	return &schemas.Error{Codec: "string", Op: schemas.OpDecode, Offset: offset, Reason: reason, Err: wrapped}
}

// keepReturned returns an Append that hands out one slice over and over.
func keepReturned() func(dst []byte, v string) ([]byte, error) {
	var kept []byte
	return func(dst []byte, v string) ([]byte, error) {
		if kept == nil {
			kept = []byte(v)
		}
		if len(dst) == 0 {
			return kept, nil
		}
		return append(dst, kept...), nil
	}
}

// faults are codecs that break one rule each, the check that is there to find it, and
// what the check has to say.
var faults = []struct {
	name  string
	codec broken
	check func(schemas.Codec[string], string) []string
	want  string
}{
	{
		"no name", broken{name: func() string { return "" }},
		func(c schemas.Codec[string], _ string) []string { return checkName(c) }, "Name is empty",
	},
	{
		"overwrites dst", broken{append: func(dst []byte, v string) ([]byte, error) {
			return append(dst[:0], v...), nil
		}},
		checkAppend[string], "changed what dst held",
	},
	{
		"random order", broken{append: func(dst []byte, v string) ([]byte, error) {
			return fmt.Appendf(dst, "%s%d", v, rand.Uint64()), nil
		}},
		checkAppend[string], "different bytes",
	},
	{
		"loses the end", broken{decode: func(b []byte) (string, error) {
			return string(b[:max(len(b)-1, 0)]), nil
		}},
		checkRoundTrip[string], "Decode of Append gave",
	},
	{
		"changes the input", broken{decode: func(b []byte) (string, error) {
			s := string(b)
			clear(b)
			return s, nil
		}},
		checkRetention[string], "changed its input",
	},
	{
		"keeps what it returned", broken{append: keepReturned()},
		checkRetention[string], "kept a reference to what it returned",
	},
	{
		"panics on short input", broken{decode: func(b []byte) (string, error) { return string(b[:3]), nil }},
		checkHostile[string], "Decode panicked",
	},
	{
		"error and value", broken{decode: func(b []byte) (string, error) {
			return "x", refusal(0, "no", nil)
		}},
		checkHostile[string], "an error and a value",
	},
	{
		"foreign error", broken{decode: func([]byte) (string, error) { return "", errors.New("no") }},
		checkHostile[string], "not a *schemas.Error",
	},
	{
		"offset behind the input", broken{decode: func(b []byte) (string, error) {
			return "", refusal(int64(len(b))+1, "no", nil)
		}},
		checkHostile[string], "outside the input",
	},
	{
		"quotes in the reason", broken{decode: func(b []byte) (string, error) {
			return "", refusal(0, "cannot read "+string(b), nil)
		}},
		checkHostile[string], "quotes the payload",
	},
	{
		"quotes in a wrapped error", broken{decode: func(b []byte) (string, error) {
			return "", refusal(0, "no", errors.Join(errors.New("fine"), fmt.Errorf("bad: %s", b)))
		}},
		checkHostile[string], "quotes the payload",
	},
	{
		"takes what it should refuse", broken{}, checkRefusal[string], "took the value",
	},
	{
		"refuses and changes dst", broken{append: func(dst []byte, _ string) ([]byte, error) {
			return dst[:0], &schemas.Error{Codec: "string", Op: schemas.OpAppend, Offset: -1, Reason: "no"}
		}},
		checkRefusal[string], "changed dst",
	},
	{
		"quotes what it refuses", broken{append: func(dst []byte, v string) ([]byte, error) {
			return dst, &schemas.Error{Codec: "string", Op: schemas.OpAppend, Offset: -1, Reason: v}
		}},
		checkRefusal[string], "quotes the payload",
	},
}

// TestSuiteCatches is the suite's negative control.
func TestSuiteCatches(t *testing.T) {
	for _, test := range faults {
		t.Run(test.name, func(t *testing.T) {
			test.codec.Codec = schemas.String()
			problems := test.check(test.codec, "value "+Canary)
			if !strings.Contains(strings.Join(problems, "\n"), test.want) {
				t.Errorf("the check found %q, want a problem with %q", problems, test.want)
			}
		})
	}
}

// retaining decodes without a copy.
type retaining struct{ schemas.Codec[[]byte] }

func (retaining) Decode(b []byte) ([]byte, error) { return b, nil }

func TestSuiteCatchesRetention(t *testing.T) {
	problems := checkRetention(retaining{schemas.Bytes()}, []byte("value"))
	if !strings.Contains(strings.Join(problems, "\n"), "kept a reference to its input") {
		t.Errorf("the check found %q", problems)
	}
	if problems := checkRetention(schemas.Bytes(), []byte("value")); problems != nil {
		t.Errorf("the check complains about a codec that copies: %q", problems)
	}
}
