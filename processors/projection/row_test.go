package projection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
)

func TestRowCodec(t *testing.T) {
	codec := ownRowCodec[string]{rowCodec[string]{state: schemas.String(), definition: 7}}
	codectest.Run(t, codec,
		Row[string]{Version: math.MinInt64, Value: codectest.Canary},
		Row[string]{Version: math.MaxInt64, Value: ""},
		Row[string]{Version: 1, Deleted: true},
		Row[string]{Version: 1, Incarnation: math.MinInt64, Value: "x"},
		Row[string]{Version: 1, Incarnation: 1, Deleted: true})
	codectest.Refuses(t, codec, Row[string]{Value: codectest.Canary + "\xff"})
}

func TestRowCodecIsStrict(t *testing.T) {
	codec := ownRowCodec[string]{rowCodec[string]{state: schemas.String(), definition: 7}}
	b, err := codec.Append(nil, Row[string]{Version: 1, Deleted: true})
	if err != nil {
		t.Fatal(err)
	}
	change := func(i int, to byte) []byte {
		changed := append([]byte{}, b...)
		changed[i] = to
		return changed
	}
	for name, b := range map[string][]byte{
		"empty": {}, "short": b[:rowHeaderBytes-1], "deleted with a state": append(b[:len(b):len(b)], 'x'),
		"other format": change(0, 2), "other definition": change(2, 8), "unknown flag": change(3, 5),
		"no incarnation": change(3, 3), "incarnation 0": append(change(3, 3), make([]byte, 8)...),
	} {
		if row, err := codec.Decode(b); err == nil {
			t.Errorf("%s: decodes to %+v", name, row)
		}
	}
}

// TestStoredIsShown: tools that show the store see the row, and of one that another definition
// wrote that there is one.
func TestStoredIsShown(t *testing.T) {
	codec := rowCodec[string]{state: schemas.String(), definition: 7}
	b, err := codec.Append(nil, stored[string]{row: Row[string]{Version: 3, Value: "text"}, definition: 7})
	if err != nil {
		t.Fatal(err)
	}
	for definition, want := range map[uint16]string{7: `{"definition":7,"version":3,"value":"text"}`, 8: `{"definition":7}`} {
		s, err := rowCodec[string]{state: schemas.String(), definition: definition}.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if shown, err := json.Marshal(s); err != nil || string(shown) != want {
			t.Errorf("definition %d shows %s, %v; want %s", definition, shown, err, want)
		}
	}
}

// TestRowOfOtherDefinition: the projection itself learns which definition wrote a row, whatever its
// state is.
func TestRowOfOtherDefinition(t *testing.T) {
	old := ownRowCodec[string]{rowCodec[string]{state: schemas.String(), definition: 6}}
	b, err := old.Append(nil, Row[string]{Value: "text"})
	if err != nil {
		t.Fatal(err)
	}
	codec := rowCodec[int64]{state: schemas.Int64(), definition: 7}
	if s, err := codec.Decode(b); err != nil || s.definition != 6 || s.row != (Row[int64]{}) {
		t.Errorf("the row is %+v, %v", s, err)
	}
	if _, err := codec.Append(nil, stored[int64]{definition: 6}); err == nil {
		t.Error("a row of another definition is written")
	}
}

func TestOutcomeText(t *testing.T) {
	codectest.Run(t, schemas.JSON[Skipped[string]](),
		Skipped[string]{Outcome: Stale, Version: 1, Applied: 2, Value: codectest.Canary},
		Skipped[string]{Outcome: Duplicate, Version: math.MinInt64})
	codectest.Refuses(t, schemas.JSON[Skipped[string]](), Skipped[string]{}, Skipped[string]{Outcome: 3})
	if s := Outcome(3).String() + " " + GapPolicy(2).String(); s != "outcome(3) gap-policy(2)" {
		t.Error(s)
	}
	if s := AcceptLatest.String() + " " + FailFast.String(); s != "accept-latest fail-fast" {
		t.Error(s)
	}
}

func TestWaitingCodecs(t *testing.T) {
	keys := schemas.Codec[parkedKey[string]](parkedKeyCodec[string]{schemas.String()})
	codectest.Run(t, keys, parkedKey[string]{Key: codectest.Canary, At: position{math.MinInt64, math.MaxInt64}},
		parkedKey[string]{Key: "\x00", At: position{-1, 1}})
	codectest.Refuses(t, keys, parkedKey[string]{Key: codectest.Canary + "\xff"})
	records := schemas.Codec[parked[topology.Option[string]]](parkedCodec[topology.Option[string]]{
		value: topology.Nullable(schemas.String()), null: identity.Null[topology.Option[string]](),
	})
	header := topology.Header{Key: codectest.Canary, Value: []byte(codectest.Canary)}
	codectest.Run(t, records,
		parked[topology.Option[string]]{Value: topology.Some(codectest.Canary), Timestamp: math.MinInt64,
			Headers: []topology.Header{header, {Key: "", Value: []byte{}}, {Key: "null"}}},
		parked[topology.Option[string]]{Timestamp: 1, Headers: []topology.Header{}},
		parked[topology.Option[string]]{Value: topology.Some(""), Headers: []topology.Header{}},
		parked[topology.Option[string]]{Value: topology.Some(codectest.Canary), Headers: []topology.Header{header},
			Deferred: topology.Some(topology.Deferred{Topic: codectest.Canary, Partition: math.MaxInt32, Offset: math.MaxInt64, Mode: topology.Repair})},
		parked[topology.Option[string]]{Headers: []topology.Header{}, Deferred: topology.Some(topology.Deferred{})})
	codectest.Refuses(t, records, parked[topology.Option[string]]{Value: topology.Some(codectest.Canary + "\xff")})
	codectest.Run(t, schemas.Codec[queue](queueCodec{}),
		queue{Records: 1, Highest: position{-1, math.MaxInt64}, Since: math.MinInt64, Clock: math.MaxInt64})
	codectest.Refuses(t, schemas.Codec[queue](queueCodec{}), queue{}, queue{Records: -1})
}

// TestOrderOfPositions: the keys of the records of one key are in the order of their positions.
func TestOrderOfPositions(t *testing.T) {
	numbers := []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}
	var last []byte
	for _, incarnation := range numbers {
		for _, version := range numbers {
			b := appendPosition(nil, position{incarnation, version})
			if last != nil && bytes.Compare(last, b) >= 0 {
				t.Errorf("%d, %d is not behind the position before it", incarnation, version)
			}
			last = b
		}
	}
}

// FuzzRows: what decodes is encoded to the same bytes, and nothing panics.
func FuzzRows(f *testing.F) {
	for _, seed := range []string{
		"", "\x01\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01text",
		"\x01\x00\x07\x03\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x09",
		"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xffkv",
		"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x03\x00\x00\x00\x01" + strings.Repeat("\x00", 7) + "\x09\x00\x01tv",
		"\x02\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x04" + strings.Repeat("\x00", 14),
		"\x01\x00\x00\x00\x00\x00\x00\x00\x01" + strings.Repeat("\x00", 32), "k\x00\x01" + strings.Repeat("\x80", 16),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		decodeTwice(t, ownRowCodec[string]{rowCodec[string]{state: schemas.String(), definition: 7}}, b)
		decodeTwice(t, parkedKeyCodec[string]{schemas.String()}, b)
		decodeTwice(t, parkedCodec[[]byte]{value: schemas.Bytes(), null: identity.Null[[]byte]()}, b)
		decodeTwice(t, queueCodec{}, b)
		decodeTwice(t, definedKeyCodec[string]{schemas.String()}, b)
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

func TestReasonText(t *testing.T) {
	codec := schemas.JSON[Abandoned[string]]()
	for r := StreamTimeLimit; r <= Failed; r++ {
		codectest.Run(t, codec, Abandoned[string]{Reason: r, Message: "x", Value: codectest.Canary})
	}
	codectest.Refuses(t, codec, Abandoned[string]{}, Abandoned[string]{Reason: 4})
	if s := fmt.Sprint(StreamTimeLimit, WallClockLimit, Failed, Reason(4)); s != "stream-time wall-clock failed reason(4)" {
		t.Error(s)
	}
}
