package workload

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"
	"time"
)

// golden is an event whose bytes are those that other languages have to agree with.
var golden = Event{
	Account: AccountOf(258), ID: EventID(1), Amount: -2, Clock: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC).UnixNano(),
	Counterparty: AccountOf(7), Padding: 42,
}

// TestLayout holds the format to its bytes, but for the padding, which says nothing.
func TestLayout(t *testing.T) {
	value := golden.Append(nil)
	if len(value) != ValueBytes {
		t.Fatalf("a value has %d bytes", len(value))
	}
	clock := hex.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(golden.Clock)))
	want := hex.EncodeToString(golden.ID[:]) + "fffffffffffffffe" + clock + "0000000000000007"
	if got := hex.EncodeToString(value[:paddingAt]); got != want {
		t.Errorf("the value begins with\n%s, want\n%s", got, want)
	}
	if got := hex.EncodeToString(golden.Account[:]); got != "0000000000000102" {
		t.Errorf("the account is %s", got)
	}
	back, err := DecodeEvent(golden.Account[:], value)
	back.Padding = golden.Padding
	if err != nil || back != golden {
		t.Errorf("read back: %+v, %v", back, err)
	}
	if got := golden.Time().UnixMilli(); got != golden.Clock/1e6 {
		t.Errorf("the timestamp is %d", got)
	}
	other := golden
	other.Padding++
	if bytes.Equal(other.Append(nil)[paddingAt:], value[paddingAt:]) || bytes.Count(value[paddingAt:], []byte{0}) > 10 {
		t.Error("the padding could be compressed")
	}
	for _, wrong := range [][2][]byte{{value[:7], value}, {value[:8], value[:99]}, {nil, nil}} {
		if _, err := DecodeEvent(wrong[0], wrong[1]); err == nil {
			t.Errorf("a key of %d and a value of %d bytes were taken for an event", len(wrong[0]), len(wrong[1]))
		}
	}
}

// TestIDs: ids are text of 16 characters, and no two are the same.
func TestIDs(t *testing.T) {
	seen := map[[IDBytes]byte]bool{}
	for n := range uint64(10_000) {
		id := EventID(n)
		for _, c := range id {
			if !bytes.ContainsRune([]byte(idDigits), rune(c)) {
				t.Fatalf("id %d has the character %q", n, c)
			}
		}
		if seen[id] {
			t.Fatalf("id %d was there before", n)
		}
		seen[id] = true
	}
	if low, high := idOf(0, 1<<63), idOf(1, 0); low == high || low == idOf(0, 0) {
		t.Error("ids do not hold all of their bits")
	}
}

func TestClock(t *testing.T) {
	for _, n := range []int{ValueBytes, sumBytes} {
		output := make([]byte, n)
		output[clockAt+7] = 9
		if got, err := Clock(output); err != nil || got != 9 {
			t.Errorf("the clock of %d bytes: %d, %v", n, got, err)
		}
	}
	if _, err := Clock(make([]byte, 8)); err == nil {
		t.Error("a count has no clock, and nothing was said")
	}
}
