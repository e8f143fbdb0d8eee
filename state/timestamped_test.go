package state_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/onceward/onceward/state"
)

func TestTimestamped(t *testing.T) {
	b := newKind(t, state.Layout{Kind: state.TimestampedKind}).Store("s")
	s := state.NewTimestamped(b, text{}, number{})
	if err := errors.Join(s.Put("a", 1, 10), s.Put("b", 2, 20), s.Put("b", 3, 5), s.Put("c", 4, 4), s.Delete("c")); err != nil {
		t.Fatal(err)
	}
	if v, ms, ok, err := s.Get("b"); v != 3 || ms != 5 || !ok || err != nil {
		t.Errorf("b is %d at %d, %t, %v", v, ms, ok, err)
	}
	if v, ms, present, err := s.PutIfAbsent("a", 9, 9); v != 1 || ms != 10 || !present || err != nil {
		t.Errorf("a was %d at %d, %t, %v", v, ms, present, err)
	}
	want := []state.TimestampedPair[string, uint64]{{Key: "b", Value: 3, Time: 5}, {Key: "a", Value: 1, Time: 10}}
	if got := collect(t, s.Scan(state.Range{Reverse: true})); !slices.Equal(got, want) {
		t.Errorf("all are %v, want %v", got, want)
	}
	if b.StreamTime() != 0 {
		t.Error("a store whose rows never expire has a stream time")
	}
}

func TestTimestampedErrors(t *testing.T) {
	b := newKind(t, state.Layout{Kind: state.TimestampedKind}).Store("s")
	s := state.NewTimestamped(b, text{}, number{})
	if err := s.Put("a", 1, state.NoTime); !errors.Is(err, state.ErrTime) {
		t.Errorf("no time: %v", err)
	}
	if err := b.Put([]byte("k"), []byte("short")); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("a row without a time: %v", err)
	}
	if err := s.Put("bad", 1, 1); !errors.Is(err, errCodec) {
		t.Errorf("bad key: %v", err)
	}
	if err := s.Put("a", 13, 1); !errors.Is(err, errCodec) {
		t.Errorf("bad value: %v", err)
	}
	if all := collect(t, s.All()); len(all) != 0 {
		t.Errorf("%v were written", all)
	}
}
