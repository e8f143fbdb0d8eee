package state

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
)

// mapBytes is a store for tests of this package, which cannot import the real ones.
type mapBytes struct {
	rows map[string]string
	now  int64
	err  error
}

func (b *mapBytes) Get(key []byte) ([]byte, bool, error) {
	v, ok := b.rows[string(key)]
	return []byte(v), ok, b.err
}

func (b *mapBytes) Put(key, value []byte) error { b.rows[string(key)] = string(value); return b.err }
func (b *mapBytes) Delete(key []byte) error     { delete(b.rows, string(key)); return b.err }
func (b *mapBytes) StreamTime() int64           { return b.now }
func (b *mapBytes) Advance(ms int64)            { b.now = max(b.now, ms) }

func (b *mapBytes) Scan(r Range) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var keys []string
		for k := range b.rows {
			if r.Contains([]byte(k)) {
				keys = append(keys, k)
			}
		}
		if slices.Sort(keys); r.Reverse {
			slices.Reverse(keys)
		}
		for _, k := range keys {
			if !yield(Entry{Key: []byte(k), Value: []byte(b.rows[k])}, nil) {
				return
			}
		}
		if b.err != nil {
			yield(Entry{}, b.err)
		}
	}
}

const minute = 60_000

func newTestSegments(retention int64) (segments, *mapBytes) {
	b := &mapBytes{rows: map[string]string{}}
	return newSegments(b, Layout{Kind: DedupeKind, Retention: retention}), b
}

func (s segments) spell(r Range, from, to int64) string {
	var all []string
	for e, err := range s.scan(r, from, to) {
		if err != nil {
			return err.Error()
		}
		all = append(all, fmt.Sprintf("%s=%s", e.Key, e.Value))
	}
	return strings.Join(all, " ")
}

// TestSegmentsMerge: keys come in order whatever segment they are in, the newest first where they
// are equal.
func TestSegmentsMerge(t *testing.T) {
	s, b := newTestSegments(2 * minute)
	for _, w := range []struct {
		key string
		ms  int64
	}{{"b", 0}, {"d", 59_999}, {"a", 60_000}, {"d", 60_000}, {"c", 120_000}, {"d", 119_999}, {"e", 60_001}, {"d", 120_001}} {
		if !s.accept(w.ms) {
			t.Fatalf("%d is late", w.ms)
		}
		if err := b.Put(s.key(s.layout.segmentOf(w.ms), []byte(w.key)), fmt.Append(nil, s.layout.segmentOf(w.ms))); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct{ got, want string }{
		"all":      {s.spell(Range{}, 0, math.MaxInt64), "a=1 b=0 c=2 d=2 d=1 d=0 e=1"},
		"reverse":  {s.spell(Range{Reverse: true}, 0, math.MaxInt64), "e=1 d=2 d=1 d=0 c=2 b=0 a=1"},
		"range":    {s.spell(Range{From: []byte("b"), To: []byte("d")}, 0, math.MaxInt64), "b=0 c=2"},
		"segments": {s.spell(Range{}, 60_000, 119_999), "a=1 d=1 e=1"},
		"two":      {s.spell(Range{}, 60_000, 120_000), "a=1 c=2 d=2 d=1 e=1"},
		"future":   {s.spell(Range{}, 120_002, math.MaxInt64), ""},
		"nothing":  {s.spell(Range{To: []byte{}}, 0, math.MaxInt64), ""},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
	}
	b.Advance(179_999) // 60,000 can be read
	if got := s.spell(Range{}, 0, math.MaxInt64); got != "a=1 c=2 d=2 d=1 e=1" {
		t.Errorf("a minute later there is %q", got)
	}
	if s.accept(59_999) || !s.accept(60_000) {
		t.Error("60,000 is not the first time that can be read")
	}
	// A loop that ends early ends the scans of all segments.
	for range s.scan(Range{}, 0, math.MaxInt64) {
		break
	}
	b.err = ErrClosed
	for _, span := range []int64{179_999, 60_000} { // one segment, and all of them
		var errs []error
		for _, err := range s.scan(Range{}, span, math.MaxInt64) {
			if err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) != 1 {
			t.Errorf("a store that fails gave the errors %v, want one", errs)
		}
	}
}

// TestSegmentBounds: the segments that are looked at cover every time that can be read, and no more
// of them than segmentsMax.
func TestSegmentBounds(t *testing.T) {
	most := 0
	for _, retention := range []int64{1, minute - 1, minute, minute + 1, 2*minute - 1, 2 * minute, 2*minute + 1, 1_000_001, retentionMax} {
		s, b := newTestSegments(retention)
		for _, now := range []int64{0, 1, minute - 1, minute, retention - 1, retention, retention + 1, 10*retention + 7,
			s.layout.segmentInterval() + retention - 2, timeMax} {
			b.now = max(min(now, timeMax), 0)
			first, last, ok := s.bounds(math.MinInt64, math.MaxInt64)
			oldest := max(b.now-retention+1, 0)
			if !ok || first != s.layout.segmentOf(oldest) || last != s.layout.segmentOf(b.now) || last-first >= segmentsMax {
				t.Errorf("retention %d at %d: segments %d to %d, %t", retention, b.now, first, last, ok)
			}
			most = max(most, int(last-first)+1)
			if from, to := s.layout.segmentTimes(first); oldest < from || oldest > to {
				t.Errorf("retention %d: segment %d is from %d to %d, without %d", retention, first, from, to, oldest)
			}
			// What goes at once ends where reading begins.
			if r, some := s.layout.Expired(b.now); some != (first > 0) || some && string(r.To) != string(s.key(first, nil)) {
				t.Errorf("retention %d at %d: %x, %t expire before segment %d", retention, b.now, r.To, some, first)
			}
			if _, _, ok := s.bounds(b.now+1, math.MaxInt64); ok {
				t.Errorf("retention %d: there is something ahead of the stream time", retention)
			}
		}
	}
	if most != segmentsMax {
		t.Errorf("no more than %d segments are looked at, segmentsMax is %d", most, segmentsMax)
	}
}

// TestWithSuffixes: the range has each key of the range of keys with every suffix, and ends with
// the last of them.
func TestWithSuffixes(t *testing.T) {
	keys := []string{"", "\x00", "\x00\x00", "a", "a\x00", "a\x00\x01", "a\x01", "b", "b\xff", "\xff", "\xff\xff"}
	suffixes := []string{"\x00\x00", "\x00\x01", "\x00\xff", "\x01\x00", "\xff\x00"}
	for _, last := range suffixes {
		for _, to := range keys {
			r := withSuffixes(Range{To: []byte(to)}, []byte(last))
			for _, key := range keys {
				for _, suffix := range suffixes {
					if key < to && suffix <= last && !r.Contains([]byte(key+suffix)) {
						t.Errorf("keys below %q with suffixes to %q: %q + %q is left out of a range that ends at %q", to, last, key, suffix, r.To)
					}
				}
			}
		}
	}
	if r := withSuffixes(Range{}, []byte("x")); r.To != nil {
		t.Errorf("an open range ends at %q", r.To)
	}
	if r := withSuffixes(Range{To: []byte("user-2")}, []byte("\x00\x00")); string(r.To) != "user-2" {
		t.Errorf("a range of texts ends at %q", r.To)
	}
}
