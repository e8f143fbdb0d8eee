package state_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/onceward/onceward/state"
)

// FuzzParseDeclaration: what is taken is written with the same bytes.
func FuzzParseDeclaration(f *testing.F) {
	for _, l := range layouts {
		f.Add(state.Declaration{Name: "store", Layout: l}.Append(nil))
	}
	f.Add([]byte("store\x00keyvalue"))
	f.Add([]byte("\x00window/1"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := state.ParseDeclaration(b)
		if err != nil {
			if !errors.Is(err, state.ErrFormat) && !errors.Is(err, state.ErrCorrupt) || d != (state.Declaration{}) {
				t.Fatalf("%q gives %v and %v", b, d, err)
			}
			return
		}
		if again := d.Append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%q is %v, which is written as %q", b, d, again)
		}
	})
}
