package inbox

import (
	"math"
	"testing"

	"github.com/onceward/onceward/schemas/codectest"
)

func TestEntryCodec(t *testing.T) {
	hash := [32]byte{0: 1, 31: 0xff}
	copy(hash[1:], codectest.Canary)
	codectest.Run(t, entryCodec{},
		Entry{Outcome: Accepted},
		Entry{Outcome: Accepted, FirstSeen: math.MaxInt64, Payload: hash},
		Entry{Outcome: Accepted, FirstSeen: math.MinInt64, Payload: hash})
	codectest.Refuses(t, entryCodec{}, Entry{}, Entry{Outcome: 2})
}

func TestEntryCodecIsStrict(t *testing.T) {
	b, err := entryCodec{}.Append(nil, Entry{Outcome: Accepted})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"empty": {}, "short": b[:entryBytes-1], "long": append(b[:entryBytes:entryBytes], 0),
		"other format": append([]byte{2}, b[1:]...), "other outcome": append([]byte{1, 2}, b[2:]...),
	} {
		if e, err := (entryCodec{}).Decode(b); err == nil {
			t.Errorf("%s: decodes to %+v", name, e)
		}
	}
}
