package topology

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
)

// TestChangeCodec: the bytes are those of Kafka Streams' ChangedSerializer.
func TestChangeCodec(t *testing.T) {
	codec := changeCodec[string]{schemas.String()}
	if codec.Name() != "change:string" {
		t.Errorf("the name is %s", codec.Name())
	}
	long := strings.Repeat("x", 64)
	for _, test := range []struct {
		change Change[string]
		bytes  string
	}{
		{Change[string]{Old: Some("old")}, "old\x00"},
		{Change[string]{New: Some("new")}, "new\x01"},
		{Change[string]{New: Some("")}, "\x01"},
		{Change[string]{Old: Some("before"), New: Some("after")}, "\x0aafterbefore\x02"},
		{Change[string]{Old: Some(""), New: Some(long)}, "\x80\x01" + long + "\x02"},
	} {
		b, err := codec.Append([]byte("head"), test.change)
		if string(b) != "head"+test.bytes || err != nil {
			t.Errorf("%v is encoded as %q, %v, want %q", test.change, b, err, test.bytes)
			continue
		}
		if c, err := codec.Decode(b[len("head"):]); c != test.change || err != nil {
			t.Errorf("%q is decoded as %v, %v", b, c, err)
		}
	}
	codectest.Run(t, codec, Change[string]{Old: Some("")}, Change[string]{New: Some("\x00")},
		Change[string]{Old: Some(codectest.Canary), New: Some(codectest.Canary)})
	codectest.Refuses(t, codec, Change[string]{})
}

// TestMalformedChanges: hostile bytes end in an error, which does not quote them.
func TestMalformedChanges(t *testing.T) {
	codec := changeCodec[int64]{schemas.Int64()}
	for _, b := range []string{
		"", "\x03", codectest.Canary, "\x02", codectest.Canary + "\x02", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x02", "\x01\x02",
		"short\x00", "short\x01", "\x0612345678\x02",
	} {
		c, err := codec.Decode([]byte(b))
		if err == nil || c != (Change[int64]{}) || strings.Contains(err.Error(), codectest.Canary) {
			t.Errorf("%q is decoded as %v, %v", b, c, err)
		}
	}
}

// TestChangeCodecKeepsDst: an error of the inner codec leaves what was there.
func TestChangeCodecKeepsDst(t *testing.T) {
	codec := changeCodec[string]{refusing{schemas.String()}}
	for _, c := range []Change[string]{
		{Old: Some("bad")}, {New: Some("bad")}, {Old: Some("bad"), New: Some("x")}, {Old: Some("x"), New: Some("bad")},
	} {
		if b, err := codec.Append([]byte("head"), c); err == nil || string(b) != "head" {
			t.Errorf("%v is encoded as %q, %v", c, b, err)
		}
	}
}

// refusing refuses one text.
type refusing struct{ schemas.Codec[string] }

func (c refusing) Append(dst []byte, v string) ([]byte, error) {
	if v == "bad" {
		return dst, &schemas.Error{Codec: "refusing", Op: schemas.OpAppend, Offset: -1, Reason: "refused"}
	}
	return c.Codec.Append(dst, v)
}
