package task

import (
	"math"
	"testing"
	"time"
)

// TestDigest: it tells which offsets were taken, whatever their order and however many they are,
// and of which state it is.
func TestDigest(t *testing.T) {
	first := FirstDigest(time.UnixMilli(1_700_000_000_123))
	of := func(offsets ...int64) int64 {
		d := first
		for _, at := range offsets {
			d = AddToDigest(d, at)
		}
		return d
	}
	if of(0, 1, 7) != of(7, 0, 1) {
		t.Error("the digest depends on the order")
	}
	seen := map[int64][2]int64{}
	for i := range int64(300) { // what is left of one key on one replica or another, of three records
		for j := range i {
			d := of(i, j)
			if other, there := seen[d]; there {
				t.Fatalf("offsets %d and %d have the digest of %d and %d", i, j, other[0], other[1])
			}
			seen[d] = [2]int64{i, j}
		}
	}
	if of(0) == first {
		t.Error("offset 0 leaves no trace")
	}
	many := first
	for i := range int64(10_000) {
		many = AddToDigest(many, i<<32)
	}
	if many |= otherForm; !HasOtherForms(AddToDigest(many, 1)) || HasOtherForms(first) || SameRecords(many, first) ||
		!SameRecords(many, many&^otherForm) {
		t.Error("that there was another form of a key is not kept apart from what was taken")
	}
	if EmptyDigest(many) != first || EmptyDigest(first) != first {
		t.Error("what was taken changes which state it is of")
	}
}

// TestDigestOfStates: each state begins with another one, which is neither negative nor a stream
// time.
func TestDigestOfStates(t *testing.T) {
	year2100 := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, d := range []int64{FirstDigest(time.UnixMilli(0)), FirstDigest(year2100), NextDigest(0), NextDigest(math.MaxInt64)} {
		for range 3 {
			next := NextDigest(AddToDigest(d, 5))
			if next == EmptyDigest(d) || d < digestMark || next < digestMark {
				t.Errorf("%x is followed by %x", d, next)
			}
			d = next
		}
	}
	if NextDigest(0) != NextDigest(year2100.UnixMilli()) {
		t.Error("a stream time says something about a state")
	}
	if a, b := FirstDigest(year2100), FirstDigest(year2100.Add(time.Millisecond)); a == b {
		t.Error("two states begin with the same digest")
	}
}
