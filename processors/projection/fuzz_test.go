package projection

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
)

func FuzzRow(f *testing.F) {
	processortest.FuzzCodec(f, ownRowCodec[string]{rowCodec[string]{state: schemas.String(), definition: 7}},
		Row[string]{}, Row[string]{Version: math.MinInt64, Value: "text"}, Row[string]{Version: 1, Deleted: true})
}

// FuzzRowOfAnyDefinition: the projection itself reads the header of rows that other definitions
// wrote, and nothing else of them.
func FuzzRowOfAnyDefinition(f *testing.F) {
	codec := rowCodec[string]{state: schemas.String(), definition: 7}
	f.Add([]byte{})
	f.Add([]byte{rowFormat, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff})
	f.Add([]byte{rowFormat, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff})
	f.Add([]byte{rowFormat, 0, 7, rowDeleted, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := codec.Decode(b)
		switch {
		case err != nil:
			if _, ok := errors.AsType[*schemas.Error](err); !ok || s != (stored[string]{}) {
				t.Fatalf("%x: %+v, %#v", b, s, err)
			}
		case s.definition != codec.definition:
			if s.row != (Row[string]{}) {
				t.Fatalf("%x: of definition %d the row is %+v", b, s.definition, s.row)
			}
		default:
			if again, err := codec.Append(nil, s); err != nil || !bytes.Equal(again, b) {
				t.Fatalf("%x is written as %x, %v", b, again, err)
			}
		}
	})
}
