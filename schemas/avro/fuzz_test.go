package avro

import (
	"bytes"
	"errors"
	"testing"

	"github.com/onceward/onceward/schemas"
)

// FuzzFlightDecode: whatever the bytes behind the header are, there is a value that
// can be written again or a proper error.
func FuzzFlightDecode(f *testing.F) {
	codec := FlightCodec()
	for _, flight := range []Flight{departed, cancelled, {}} {
		b, err := codec.Append(nil, flight)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[headerSize:])
	}
	header := headerOf(f, codec)
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := codec.Decode(append(bytes.Clone(header), body...))
		if err != nil {
			checkError(t, err, headerSize+len(body))
			return
		}
		b, err := codec.Append(nil, v)
		if err != nil {
			t.Fatalf("a decoded value is refused: %v", err)
		}
		if again, err := codec.Decode(b); err != nil || again != v {
			t.Fatalf("%+v came back as %+v, %v", v, again, err)
		}
	})
}

// FuzzDecode does the same with all of Avro's types. Other encoders may spell one
// value in several ways, so it is the second encoding that must be stable.
func FuzzDecode(f *testing.F) {
	codec := everythingCodec(f)
	for _, v := range []record{everythingValue(), nested(2)} {
		b, err := codec.Append(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[headerSize:])
	}
	header := headerOf(f, codec)
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := codec.Decode(append(bytes.Clone(header), body...))
		if err != nil {
			checkError(t, err, headerSize+len(body))
			return
		}
		once, err := codec.Append(nil, v)
		if err != nil {
			t.Fatalf("a decoded value is refused: %v", err)
		}
		if v, err = codec.Decode(once); err != nil {
			t.Fatalf("an encoding is refused: %v", err)
		}
		if twice, err := codec.Append(nil, v); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("encoding is not stable:\n%x\n%x, %v", once, twice, err)
		}
	})
}

// FuzzHeader starts with bytes that need not even have the header.
func FuzzHeader(f *testing.F) {
	codec := FlightCodec()
	f.Add(headerOf(f, codec))
	f.Add([]byte{0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := codec.Decode(b); err != nil {
			checkError(t, err, len(b))
		}
	})
}

func headerOf[T any](f *testing.F, c schemas.Codec[T]) []byte {
	f.Helper()
	return c.(*codec[T]).header[:]
}

func checkError(t *testing.T, err error, size int) {
	t.Helper()
	e, ok := errors.AsType[*schemas.Error](err)
	if !ok || e.Op != schemas.OpDecode || e.Reason == "" || e.Offset < -1 || e.Offset > int64(size) {
		t.Fatalf("error is %#v", err)
	}
}
