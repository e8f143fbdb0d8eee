package evidence

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/schemas"
)

// TestEntryCodec: an entry is written as schemas.JSON writes it, byte for byte, whatever is in it.
// Every field is drawn, so that one which is added is not forgotten.
func TestEntryCodec(t *testing.T) {
	codec, plain := newEntryCodec(), schemas.JSON[Entry]()
	texts := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[ -~]{0,9}`), rapid.String(), rapid.Just("\xff\u2028<&>\x7f"))
	rapid.Check(t, func(rt *rapid.T) {
		var e Entry
		for i, v := 0, reflect.ValueOf(&e).Elem(); i < v.NumField(); i++ {
			name, f := v.Type().Field(i).Name, v.Field(i)
			if !v.Type().Field(i).IsExported() {
				continue // it is not written
			}
			switch f.Interface().(type) {
			case []byte: // the row, which is the key of the record
			case string:
				f.SetString(texts.Draw(rt, name))
			case bool:
				f.SetBool(rapid.Bool().Draw(rt, name))
			case int32, int64, int:
				f.SetInt(int64(rapid.Int32().Draw(rt, name)) * int64(rapid.IntRange(0, 1).Draw(rt, name+" is not 0")))
			case *int64:
				if rapid.Bool().Draw(rt, name+" is there") {
					n := rapid.Int64().Draw(rt, name)
					f.Set(reflect.ValueOf(&n))
				}
			default:
				rt.Fatalf("%s is of another type than is drawn", name)
			}
		}
		want, err := plain.Append([]byte("before"), e)
		if err != nil {
			rt.Fatal(err)
		}
		if rapid.Bool().Draw(rt, "its beginning is known") {
			e.head = headOf(&e)
		}
		if got, err := codec.Append([]byte("before"), e); err != nil || !bytes.Equal(got, want) {
			rt.Fatalf("%s\nwant %s, %v", got, want, err)
		}
	})
	large := Entry{Subject: string(bytes.Repeat([]byte("x"), schemas.MaxJSONBytes))}
	if b, err := codec.Append(nil, large); err == nil {
		t.Errorf("an entry of %d bytes is written", len(b))
	}
}

// TestAppendAllocations: what is written needs no memory but its own.
func TestAppendAllocations(t *testing.T) {
	codec, n := newEntryCodec(), int64(7)
	e := Entry{Application: "a", Node: "n", Outcome: "accepted", Subject: "s", Before: &n, After: &n, Mode: "LIVE"}
	buf := make([]byte, 0, 1024)
	if got := testing.AllocsPerRun(100, func() {
		var err error
		if buf, err = codec.Append(buf[:0], e); err != nil {
			t.Fatal(err)
		}
	}); got > 0 {
		t.Errorf("an entry costs %v allocations", got)
	}
}

func BenchmarkAppend(b *testing.B) {
	n := int64(41)
	e := Entry{
		Application: "payments", Version: "0123456789abcdef0123456789abcdef", Node: "balances", Task: "payments_3", Outcome: "accepted",
		Store: "balances-balances", Subject: "0123456789abcdef", Before: &n, After: &n,
		Topic: "payments", Partition: 3, Offset: 123456789, Time: 1_700_000_000_000, StreamTime: 1_700_000_000_000, Mode: "LIVE", Attempt: 1,
	}
	for name, codec := range map[string]schemas.Codec[Entry]{"evidence": newEntryCodec(), "json": schemas.JSON[Entry]()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				var err error
				if buf, err = codec.Append(buf[:0], e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
