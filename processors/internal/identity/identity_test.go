package identity_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

func TestCheckID(t *testing.T) {
	for _, id := range []string{"a", "\x00", "Zürich", strings.Repeat("x", identity.IDBytesMax)} {
		if err := identity.CheckID(id); err != nil {
			t.Errorf("%.10q: %v", id, err)
		}
	}
	for id, reason := range map[string]string{
		"": "the id is missing",
		strings.Repeat("x", identity.IDBytesMax+1): "the id has more than 1024 bytes",
		"a\xff": "the id is not valid UTF-8",
	} {
		err := identity.CheckID(id)
		if topology.ClassOf(err) != topology.Validation || schemas.ReasonOf(err) != reason {
			t.Errorf("%.10q: %v, want %q", id, err, reason)
		}
	}
}

// TestRefused: a class that the function gave stays, Poison too, which ClassOf answers for no class
// as well.
func TestRefused(t *testing.T) {
	cause := errors.New("cause")
	for class := topology.Transient; class <= topology.Fatal; class++ {
		err := identity.Refused(fmt.Errorf("wrapped: %w", topology.Fail(class, cause)))
		if topology.ClassOf(err) != class || !errors.Is(err, cause) {
			t.Errorf("%v is %s, want %s", err, topology.ClassOf(err), class)
		}
	}
	if err := identity.Refused(cause); topology.ClassOf(err) != topology.Validation || !errors.Is(err, cause) {
		t.Errorf("%v is %s", err, topology.ClassOf(err))
	}
}

type named string

// namedCodec is a codec of a type that schemas does not know.
type namedCodec struct{ schemas.Codec[string] }

func (c namedCodec) Append(dst []byte, v named) ([]byte, error) {
	return c.Codec.Append(dst, string(v))
}
func (c namedCodec) Decode(b []byte) (named, error) {
	v, err := c.Codec.Decode(b)
	return named(v), err
}

func TestKeyCodec(t *testing.T) {
	wantCodec[string](t, nil, "string")
	wantCodec[[]byte](t, nil, "bytes")
	wantCodec[int32](t, nil, "int32")
	wantCodec[int64](t, nil, "int64")
	wantCodec[named](t, namedCodec{schemas.String()}, "string")
	wantCodec[string](t, schemas.JSON[string](), "json")
	wantNoCodec[named](t, nil, "keys of type identity_test.named need a codec")
	wantNoCodec[named](t, schemas.String(), "the codec is not one for identity_test.named")
}

func wantCodec[K any](t *testing.T, given any, name string) {
	t.Helper()
	codec, err := identity.KeyCodec[K](given)
	if err != nil || codec == nil || codec.Name() != name {
		t.Errorf("the codec is %v, %v, want %s", codec, err, name)
	}
}

func wantNoCodec[K any](t *testing.T, given any, text string) {
	t.Helper()
	codec, err := identity.KeyCodec[K](given)
	if codec != nil || err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("the codec is %v, %v, want %q", codec, err, text)
	}
}

func TestNull(t *testing.T) {
	check := func(name string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s is null: %v", name, got)
		}
	}
	check("nil", identity.Null[[]byte]()(nil), true)
	check("empty bytes", identity.Null[[]byte]()([]byte{}), false)
	check("empty string", identity.Null[string]()(""), false)
	check("zero", identity.Null[int]()(0), false)
	check("nil pointer", identity.Null[*int]()(nil), false)
	check("zero struct", identity.Null[struct{ A int }]()(struct{ A int }{}), false)
	check("none", identity.Null[topology.Option[string]]()(topology.None[string]()), true)
	check("some zero", identity.Null[topology.Option[string]]()(topology.Some("")), false)
	check("some nil", identity.Null[topology.Option[[]byte]]()(topology.Some[[]byte](nil)), false)
	type table = map[string]int
	check("none of a map", identity.Null[topology.Option[table]]()(topology.None[table]()), true)
}
