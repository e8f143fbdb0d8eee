package processortest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/onceward/onceward/schemas"
)

// FuzzCodec is the body of a fuzz target for the codec of a row, or of a key of one. Whatever the
// bytes are, the codec leaves them alone; what it refuses it refuses in the form that package
// schemas asks for; and what it takes is exactly what it would have written. So a row has one form,
// and one that is read and written again is the same in its changelog.
//
// Seeds are the encodings of the values, each also without its last byte, with one more, and with
// another first one.
func FuzzCodec[T any](f *testing.F, codec schemas.Codec[T], values ...T) {
	f.Helper()
	for _, v := range values {
		b, err := codec.Append(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(bytes.Clone(b), 0))
		if len(b) > 0 {
			f.Add(b[:len(b)-1])
			f.Add(append([]byte{b[0] + 1}, b[1:]...))
		}
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		v, err := codec.Decode(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			e, ok := errors.AsType[*schemas.Error](err)
			if !ok || e.Op != schemas.OpDecode || e.Codec != codec.Name() || e.Reason == "" || e.Offset < -1 || e.Offset > int64(len(b)) {
				t.Fatalf("%x: the error is %#v", b, err)
			}
			return
		}
		again, err := codec.Append(nil, v)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x is read as %+v, which is written as %x, %v", b, v, again, err)
		}
	})
}
