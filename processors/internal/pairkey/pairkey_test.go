package pairkey_test

import (
	"bytes"
	"cmp"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/internal/pairkey"
)

// part draws few different bytes, so that zeros and what stands for them meet in every way.
var part = rapid.SliceOfN(rapid.SampledFrom([]byte{0x00, 0x01, 'a', 0xfe, 0xff}), 0, 6)

func key(first, second []byte) []byte {
	prefix := []byte("\x00before")
	b := append(pairkey.Seal(append(prefix, first...), len(prefix)), second...)
	return b[len(prefix):]
}

// TestPair: what went in comes out, and keys are ordered as the pairs are.
func TestPair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := part.Draw(t, "a"), part.Draw(t, "b")
		c, d := part.Draw(t, "c"), part.Draw(t, "d")
		one, other := key(a, b), key(c, d)
		first, second, ok := pairkey.Split(one)
		if !ok || !bytes.Equal(first, a) || !bytes.Equal(second, b) {
			t.Fatalf("(%x, %x) became %x, and that (%x, %x), %v", a, b, one, first, second, ok)
		}
		if got, want := bytes.Compare(one, other), cmp.Or(bytes.Compare(a, c), bytes.Compare(b, d)); got != want {
			t.Fatalf("(%x, %x) and (%x, %x) compare as %d, want %d", a, b, c, d, got, want)
		}
		if !bytes.Equal(a, c) && bytes.HasPrefix(one, pairkey.Seal(bytes.Clone(c), 0)) {
			t.Fatalf("a key of %x is among those of %x", a, c)
		}
	})
}

func TestGolden(t *testing.T) {
	if got := key([]byte("a\x00\x00b"), []byte("\x00c")); string(got) != "a\x00\xff\x00\xffb\x00\x01\x00c" {
		t.Errorf("the key is %q", got)
	}
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "a", "\x00", "\x00\x01", "a\x00\xff\x00\x01b", "a\x00\x02b", "\x00\xff\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		first, second, ok := pairkey.Split(b)
		if !bytes.Equal(b, before) {
			t.Fatal("Split changed its input")
		}
		if !ok {
			return
		}
		if again := append(pairkey.Seal(bytes.Clone(first), 0), second...); !bytes.Equal(again, b) {
			t.Fatalf("%x is (%x, %x), and that is %x", b, first, second, again)
		}
	})
}
