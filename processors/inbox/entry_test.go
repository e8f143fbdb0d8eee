package inbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
)

func TestEntryCodec(t *testing.T) {
	hash := [32]byte{0: 1, 31: 0xff}
	copy(hash[1:], codectest.Canary)
	codectest.Run(t, entryCodec{},
		Entry{Outcome: Accepted},
		Entry{Outcome: Accepted, FirstSeen: math.MaxInt64, Payload: hash},
		Entry{Outcome: Accepted, FirstSeen: math.MinInt64, Payload: hash})
	codectest.Refuses(t, entryCodec{}, Entry{}, Entry{Outcome: 4})
	codectest.Run(t, schemas.JSON[Entry](),
		Entry{Outcome: Repeated}, Entry{Outcome: Disputed, FirstSeen: math.MinInt64, Payload: hash})
}

func TestClaimCodec(t *testing.T) {
	hash := [32]byte{31: 0xff}
	codectest.Run(t, claimCodec{}, Claim{}, Claim{ID: codectest.Canary, FirstSeen: math.MinInt64, Payload: hash})
	codectest.Refuses(t, claimCodec{}, Claim{ID: codectest.Canary + "\xff"}, Claim{ID: strings.Repeat(codectest.Canary, 100)})
}

func TestArchiveCodec(t *testing.T) {
	entry := Entry{Outcome: Disputed, FirstSeen: 7, Payload: [32]byte{1}}
	codectest.Run(t, archiveCodec{}, archiveRow{Head: 1, Tail: 1}, archiveRow{Head: 1, Tail: math.MaxInt64},
		archiveRow{ID: codectest.Canary, Entry: entry})
	codectest.Refuses(t, archiveCodec{}, archiveRow{}, archiveRow{Tail: 1}, archiveRow{Head: 2, Tail: 1}, archiveRow{Head: 1},
		archiveRow{ID: codectest.Canary}, archiveRow{Entry: entry}, archiveRow{Head: 1, Tail: 1, ID: codectest.Canary})
}

// FuzzRows: what one of the codecs of rows reads is the one encoding of what it has read.
func FuzzRows(f *testing.F) {
	entry, _ := entryCodec{}.Append(nil, Entry{Outcome: Accepted, FirstSeen: 1})
	claim, _ := claimCodec{}.Append(nil, Claim{ID: "e1", FirstSeen: 1})
	ends, _ := archiveCodec{}.Append(nil, archiveRow{Head: 1, Tail: 3})
	queued, _ := archiveCodec{}.Append(nil, archiveRow{ID: "e1", Entry: Entry{Outcome: Repeated}})
	for _, seed := range [][]byte{entry, claim, ends, queued, {}, {2}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		reread(t, entryCodec{}, b)
		reread(t, claimCodec{}, b)
		reread(t, archiveCodec{}, b)
	})
}

func reread[T any](t *testing.T, codec schemas.Codec[T], b []byte) {
	t.Helper()
	v, err := codec.Decode(b)
	if err != nil {
		return
	}
	if again, err := codec.Append(nil, v); err != nil || !bytes.Equal(again, b) {
		t.Errorf("%s reads %x, and writes it as %x, %v", codec.Name(), b, again, err)
	}
}

// TestStatuses: the words of the specification, and which of them let the source go on. Requirement
// C7.
func TestStatuses(t *testing.T) {
	want := "RECEIVED false, CLAIMED false, PROCESSED true, DUPLICATE true, RETRYABLE_FAILED false, QUARANTINED true, " +
		"IGNORED true, SUPERSEDED true, STATUS(9) false, "
	got := ""
	for s := Received; s <= Superseded+1; s++ {
		got += fmt.Sprint(s, " ", s.Advances(), ", ")
	}
	if got != want {
		t.Errorf("the statuses are %s", got)
	}
	for o, want := range map[Outcome]Status{Accepted: Processed, Repeated: Duplicate, Disputed: Quarantined, 0: 0, 4: 0} {
		if got := o.Status(); got != want {
			t.Errorf("%s is %s, want %s", o, got, want)
		}
	}
	form, err := json.Marshal(Entry{Outcome: Accepted, FirstSeen: 7})
	want = `{"status":"PROCESSED","outcome":"accepted","first_seen":7,"payload":"` + strings.Repeat("0", 64) + `"}`
	if err != nil || string(form) != want {
		t.Errorf("an operator sees %s, %v", form, err)
	}
}

func TestEntryCodecIsStrict(t *testing.T) {
	b, err := entryCodec{}.Append(nil, Entry{Outcome: Accepted})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"empty": {}, "short": b[:entryBytes-1], "long": append(b[:entryBytes:entryBytes], 0),
		"other format": append([]byte{2}, b[1:]...), "other outcome": append([]byte{1, 4}, b[2:]...),
	} {
		if e, err := (entryCodec{}).Decode(b); err == nil {
			t.Errorf("%s: decodes to %+v", name, e)
		}
	}
}
