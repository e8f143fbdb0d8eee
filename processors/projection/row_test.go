package projection

import (
	"math"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
)

func TestRowCodec(t *testing.T) {
	codec := ownRowCodec[string]{rowCodec[string]{state: schemas.String(), definition: 7}}
	codectest.Run(t, codec,
		Row[string]{Version: math.MinInt64, Value: codectest.Canary},
		Row[string]{Version: math.MaxInt64, Value: ""},
		Row[string]{Version: 1, Deleted: true})
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
		"other format": change(0, 2), "other definition": change(2, 8), "unknown flag": change(3, 3),
	} {
		if row, err := codec.Decode(b); err == nil {
			t.Errorf("%s: decodes to %+v", name, row)
		}
	}
}

// TestRowOfOtherDefinition: the projection itself learns which definition wrote a row, whatever its state is.
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
