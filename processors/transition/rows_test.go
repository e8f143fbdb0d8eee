package transition

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
)

func TestCodecs(t *testing.T) {
	long := strings.Repeat("x", stateBytesMax)
	codectest.Run(t, schemas.Codec[Aggregate[string]](aggregateCodec[string]{true}),
		Aggregate[string]{State: codectest.Canary, Version: math.MaxInt64, Timestamp: math.MinInt64, First: 7},
		Aggregate[string]{State: "b", Before: []string{"a", "c", long}})
	codectest.Refuses(t, schemas.Codec[Aggregate[string]](aggregateCodec[string]{true}),
		Aggregate[string]{}, Aggregate[string]{State: codectest.Canary + "\xff"}, Aggregate[string]{State: long + "x"},
		Aggregate[string]{State: "a", Before: []string{"a"}}, Aggregate[string]{State: "a", Before: []string{"c", "b"}},
		Aggregate[string]{State: codectest.Canary, Version: 1, First: 2},
		Aggregate[string]{State: "a", Before: []string{"b", "b"}}, Aggregate[string]{State: "a", Before: []string{""}},
		Aggregate[string]{State: "x", Before: states(statesMax)})
	codectest.Run(t, schemas.Codec[Fact[string]](factCodec[string]{}),
		Fact[string]{From: codectest.Canary, To: long, Version: math.MinInt64, Timestamp: math.MaxInt64},
		Fact[string]{To: "a"})
	codectest.Refuses(t, schemas.Codec[Fact[string]](factCodec[string]{}),
		Fact[string]{From: codectest.Canary}, Fact[string]{To: codectest.Canary + "\xff"},
		Fact[string]{From: long + "x", To: "a"})
	codectest.Run(t, schemas.Codec[FactKey[string]](keyCodec[string]{schemas.String()}),
		FactKey[string]{Aggregate: codectest.Canary, ID: codectest.Canary},
		FactKey[string]{Aggregate: "", ID: "\x00\x01"}, FactKey[string]{Aggregate: "\x00\x00\x01", ID: "x"})
	codectest.Refuses(t, schemas.Codec[FactKey[string]](keyCodec[string]{schemas.String()}),
		FactKey[string]{Aggregate: codectest.Canary}, FactKey[string]{Aggregate: "\xff", ID: codectest.Canary},
		FactKey[string]{ID: codectest.Canary + "\xff"})
}

// states returns n states in their order.
func states(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%03d", i))
	}
	return all
}

func TestMostStates(t *testing.T) {
	codectest.Run(t, schemas.Codec[Aggregate[string]](aggregateCodec[string]{true}),
		Aggregate[string]{State: "x", Before: states(statesMax - 1)})
}

// TestEnter: an aggregate knows every other state that it was in, once.
func TestEnter(t *testing.T) {
	var a Aggregate[string]
	for i, s := range []string{"b", "b", "a", "c", "b"} {
		a = a.enter(Fact[string]{To: s, Version: int64(3 + i), Timestamp: int64(i)})
	}
	if got := fmt.Sprint(a); got != "{b 7 4 3 [a c]}" {
		t.Error(got)
	}
	if one := (Aggregate[string]{}).enter(Fact[string]{To: "b"}); one.Before != nil {
		t.Errorf("%+v", one)
	}
}

// FuzzRows: what decodes is encoded to the same bytes, and nothing panics.
func FuzzRows(f *testing.F) {
	header := append([]byte{rowFormat}, make([]byte, 16)...)
	for _, rest := range []string{"", "\x01\x01a", "\x02\x01b\x01a", "\x01a\x01b", "\x00\x01a", "\xff\xff"} {
		f.Add(append(bytes.Clone(header), rest...))
		f.Add(append([]byte{versionedFormat}, string(header[1:])+string(make([]byte, firstBytes))+rest...))
	}
	f.Add([]byte("k\x00\x01id"))
	f.Fuzz(func(t *testing.T, b []byte) {
		decodeTwice(t, aggregateCodec[string]{}, b)
		decodeTwice(t, aggregateCodec[string]{true}, b)
		decodeTwice(t, factCodec[string]{}, b)
		decodeTwice(t, keyCodec[string]{schemas.String()}, b)
	})
}

func decodeTwice[T any](t *testing.T, codec schemas.Codec[T], b []byte) {
	t.Helper()
	v, err := codec.Decode(b)
	if err != nil {
		return
	}
	if again, err := codec.Append(nil, v); err != nil || !bytes.Equal(again, b) {
		t.Errorf("%s: %x is %+v, and that is %x, %v", codec.Name(), b, v, again, err)
	}
}

func TestRefusalText(t *testing.T) {
	codec := schemas.JSON[Refused[string, string]]()
	for r := Duplicate; r <= Corruption; r++ {
		codectest.Run(t, codec, Refused[string, string]{Refusal: r, Reason: "x", Value: codectest.Canary})
	}
	codectest.Refuses(t, codec, Refused[string, string]{}, Refused[string, string]{Refusal: 7})
	if s := fmt.Sprint(Duplicate, Stale, Illegal, MissingAggregate, OutOfOrder, Corruption, Refusal(7)); s !=
		"duplicate stale illegal missing-aggregate out-of-order corruption refusal(7)" {
		t.Error(s)
	}
	var r Refusal
	if err := r.UnmarshalText([]byte(codectest.Canary)); err == nil {
		t.Error("an unknown refusal is read")
	}
}

// TestFactRow: a tool that knows the key of an aggregate finds an accepted transition where the
// guard has it.
func TestFactRow(t *testing.T) {
	aggregates, facts := storesOf[string, string]("orders", schemas.String(), false)
	want, err := keyCodec[string]{schemas.String()}.Append(nil, FactKey[string]{Aggregate: "a\x00b", ID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	store, key, ok := FactRow(aggregates.Name(), []byte("a\x00b"), "s1")
	if !ok || store != facts.Name() || !bytes.Equal(key, want) {
		t.Errorf("it is %s, %x, %t; want %s, %x", store, key, ok, facts.Name(), want)
	}
	if _, _, ok := FactRow("accounts", nil, "s1"); ok {
		t.Error("a store of something else has transitions")
	}
}
