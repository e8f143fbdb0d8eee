package state_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/onceward/onceward/state"
)

var versionedLayout = state.Layout{Kind: state.VersionedKind, Retention: 100}

func mustStore(t *testing.T, s state.Versioned[string, uint64], key string, value uint64, from int64) {
	t.Helper()
	if placed, err := s.Put(key, value, from); placed == state.NotPlaced || err != nil {
		t.Fatalf("put %s at %d: %s, %v", key, from, placed, err)
	}
}

func TestVersioned(t *testing.T) {
	s := state.NewVersioned(newKind(t, versionedLayout).Store("s"), text{}, number{}, versionedLayout)
	mustStore(t, s, "a", 1, 10)
	mustStore(t, s, "a", 3, 30)
	mustStore(t, s, "a", 2, 20)
	mustStore(t, s, "b", 7, 5)
	if placed, err := s.Delete("a", 40); placed != state.PlacedLatest || err != nil {
		t.Fatal(placed, err)
	}
	if _, _, ok, err := s.Get("a"); ok || err != nil {
		t.Errorf("a deleted key is there, %v", err)
	}
	if v, from, ok, err := s.GetAsOf("a", 25); v != 2 || from != 20 || !ok || err != nil {
		t.Errorf("as of 25: %d from %d, %t, %v", v, from, ok, err)
	}
	want := []state.Version[uint64]{{Value: 2, From: 20, To: 30}, {Value: 3, From: 30, To: 40}}
	if got := collect(t, s.History("a", 20, 90)); !slices.Equal(got, want) {
		t.Errorf("the history is %v, want %v", got, want)
	}
	slices.Reverse(want)
	if got := collect(t, s.HistoryReverse("a", 20, 90)); !slices.Equal(got, want) {
		t.Errorf("the reverse history is %v, want %v", got, want)
	}
	// 130 is the first stream time at which the version that ended at 30 is out of sight: the
	// history begins at 30.
	mustStore(t, s, "c", 1, 130)
	if got := collect(t, s.History("a", 0, 200)); !slices.Equal(got, want[:1]) {
		t.Errorf("the history is %v, want %v", got, want[:1])
	}
	if placed, err := s.Put("b", 8, 29); placed != state.NotPlaced || err != nil {
		t.Errorf("a version that begins before the history: %s, %v", placed, err)
	}
	if v, from, ok, err := s.Get("b"); v != 7 || from != 5 || !ok || err != nil {
		t.Errorf("the latest version is gone: %d from %d, %t, %v", v, from, ok, err)
	}
	if placed, err := s.Put("c", 8, 30); placed != state.PlacedInHistory || err != nil {
		t.Errorf("a version that begins with the history: %s, %v", placed, err)
	}
}

// TestVersionedBeforeTheHistory: the latest version of a key is kept for ever, so that it is known
// to have been valid then. Nothing else is known.
func TestVersionedBeforeTheHistory(t *testing.T) {
	s := state.NewVersioned(newKind(t, versionedLayout).Store("s"), text{}, number{}, versionedLayout)
	mustStore(t, s, "still", 1, 10)
	mustStore(t, s, "changed", 2, 10)
	mustStore(t, s, "changed", 3, 20)
	mustStore(t, s, "deleted", 4, 10)
	if _, err := s.Delete("deleted", 15); err != nil {
		t.Fatal(err)
	}
	mustStore(t, s, "clock", 0, 200)
	for key, want := range map[string][]state.Version[uint64]{
		"still": {{Value: 1, From: 10, To: state.Forever}}, "changed": nil, "deleted": nil,
	} {
		for _, ms := range []int64{9, 10, 19} {
			v, from, ok, err := s.GetAsOf(key, ms)
			sees := want != nil && ms >= 10
			if ok != sees || ok && (v != want[0].Value || from != 10) || err != nil {
				t.Errorf("%s as of %d: %d from %d, %t, %v", key, ms, v, from, ok, err)
			}
		}
		if got := collect(t, s.History(key, 0, 19)); !slices.Equal(got, want) {
			t.Errorf("%s: the history is %v, want %v", key, got, want)
		}
	}
	if v, from, ok, err := s.GetAsOf("changed", 20); v != 3 || from != 20 || !ok || err != nil {
		t.Errorf("the latest version is gone: %d from %d, %t, %v", v, from, ok, err)
	}
}

// TestVersionedWritesTheLatestLast: what compaction leaves of a key is its latest version, whatever
// came late.
func TestVersionedWritesTheLatestLast(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		task := newKind(t, versionedLayout)
		s := state.NewVersioned(task.Store("s"), text{}, number{}, versionedLayout)
		mustStore(t, s, "a", 9, 50)
		if deleted {
			if _, err := s.Delete("a", 50); err != nil {
				t.Fatal(err)
			}
		}
		mustStore(t, s, "z", 1, 60)
		first := task.Freeze()
		if err := task.Apply(first, at(0), at(1)); err != nil {
			t.Fatal(err)
		}
		mustStore(t, s, "a", 1, 20)
		mustStore(t, s, "a", 2, 49)
		var times []int64
		for w := range task.Freeze().Logged() {
			r, err := versionedLayout.Record(w)
			if err != nil {
				t.Fatal(err)
			}
			times = append(times, r.Timestamp)
			if last := r.Timestamp == 50; last && (r.Value == nil) != deleted {
				t.Errorf("deleted %t: the latest version is logged as %v", deleted, r)
			}
		}
		if !slices.Equal(times, []int64{20, 49, 50}) {
			t.Errorf("deleted %t: the versions are logged as of %v", deleted, times)
		}
	}
}

// TestVersionedKeysDoNotMix: a key, and the same key with bytes behind it that are a time of the
// first.
func TestVersionedKeysDoNotMix(t *testing.T) {
	s := state.NewVersioned(newKind(t, versionedLayout).Store("s"), text{}, number{}, versionedLayout)
	nested := "a\x00\x00\x00\x00\x00\x00\x00\x0f"
	mustStore(t, s, "a", 1, 10)
	mustStore(t, s, nested, 2, 12)
	mustStore(t, s, "a", 3, 20)
	if got := collect(t, s.History("a", 0, 50)); !slices.Equal(got,
		[]state.Version[uint64]{{Value: 1, From: 10, To: 20}, {Value: 3, From: 20, To: state.Forever}}) {
		t.Errorf("the history of the shorter key is %v", got)
	}
	if v, _, ok, err := s.GetAsOf("a", 18); v != 1 || !ok || err != nil {
		t.Errorf("the shorter key is %d, %t, %v", v, ok, err)
	}
	if v, _, ok, err := s.Get(nested); v != 2 || !ok || err != nil {
		t.Errorf("the longer key is %d, %t, %v", v, ok, err)
	}
	if all := collect(t, s.All()); len(all) != 2 {
		t.Errorf("all are %v", all)
	}
}

func TestVersionedErrors(t *testing.T) {
	b := newKind(t, versionedLayout).Store("s")
	s := state.NewVersioned(b, text{}, number{}, versionedLayout)
	for _, ms := range []int64{-1, state.NoTime, state.Forever} {
		if _, err := s.Put("a", 1, ms); !errors.Is(err, state.ErrTime) {
			t.Errorf("time %d: %v", ms, err)
		}
		if _, _, ok, err := s.GetAsOf("a", ms); ok || err != nil {
			t.Errorf("as of %d: %t, %v", ms, ok, err)
		}
	}
	_, putErr := s.Put("bad", 1, 1)
	_, valueErr := s.Put("a", 13, 1)
	_, _, _, getErr := s.Get("bad")
	var historyErr, scanErr error
	for _, historyErr = range s.History("bad", 0, 1) {
	}
	if b.StreamTime() != 0 {
		t.Errorf("writes that were refused moved the stream time to %d", b.StreamTime())
	}
	if err := b.Put([]byte("k\x00\x00\x00\x00\x00\x00\x00\x01"), []byte("\x01short")); err != nil {
		t.Fatal(err)
	}
	b.Advance(1)
	for _, scanErr = range s.All() {
	}
	for op, err := range map[string]error{
		"put": putErr, "value": valueErr, "get": getErr, "history": historyErr, "scan": scanErr,
	} {
		if !errors.Is(err, errCodec) {
			t.Errorf("%s: got %v", op, err)
		}
	}
	if err := b.Delete([]byte("k\x00\x00\x00\x00\x00\x00\x00\x01")); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("the row of a version was deleted: %v", err)
	}
}
