package state_test

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
)

func newSession(t testing.TB) (state.Session[string, uint64], *state.Task) {
	task := newTimedTask(t, sessionLayout)
	return state.NewSession(task.Store("s"), text{}, number{}, sessionLayout), task
}

func sessionsOf(t testing.TB, seq iter.Seq2[state.SessionEntry[string, uint64], error]) string {
	t.Helper()
	var all []string
	for e, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s@%d-%d=%d", e.Key, e.Start, e.End, e.Value))
	}
	return strings.Join(all, " ")
}

func putSession(t testing.TB, s state.Session[string, uint64], key string, start, end int64, value uint64) {
	t.Helper()
	if stored, err := s.Put(key, start, end, value); !stored || err != nil {
		t.Fatalf("put of %q at %d-%d: %t, %v", key, start, end, stored, err)
	}
}

func TestSession(t *testing.T) {
	s, _ := newSession(t)
	putSession(t, s, "b", 100_000, 130_000, 1)
	putSession(t, s, "b", 10_000, 10_001, 2)
	putSession(t, s, "b", 20_000, 70_000, 3)
	putSession(t, s, "b", 30_000, 70_000, 4)
	putSession(t, s, "a", 0, 120_000, 5) // begins before what expires
	if v, ok, err := s.Get("b", 20_000, 70_000); v != 3 || !ok || err != nil {
		t.Errorf("got %d, %t, %v", v, ok, err)
	}
	if _, ok, err := s.Get("b", 20_000, 70_001); ok || err != nil {
		t.Errorf("a session that is not there: %t, %v", ok, err)
	}
	for name, test := range map[string]struct{ got, want string }{
		"fetch": {sessionsOf(t, s.Fetch("b")), "b@10000-10001=2 b@20000-70000=3 b@30000-70000=4 b@100000-130000=1"},
		"back":  {sessionsOf(t, s.FetchReverse("b")), "b@100000-130000=1 b@30000-70000=4 b@20000-70000=3 b@10000-10001=2"},
		// A record at 75,000 with a gap of 5,000 belongs to what ends at 70,000, and joins nothing
		// that starts after 80,000.
		"overlap":       {sessionsOf(t, s.Find("b", 70_000, 80_000)), "b@20000-70000=3 b@30000-70000=4"},
		"overlap, back": {sessionsOf(t, s.FindReverse("b", 10_001, 29_999)), "b@20000-70000=3 b@10000-10001=2"},
		"none":          {sessionsOf(t, s.Find("b", 70_001, 99_999)), ""},
		"all":           {sessionsOf(t, s.Scan(state.Range{Reverse: true}, 70_000, 20_000)), "b@20000-70000=3 a@0-120000=5"},
		"everything":    {sessionsOf(t, s.All()), "a@0-120000=5 " + sessionsOf(t, s.Fetch("b"))},
	} {
		if test.got != test.want {
			t.Errorf("%s is %q, want %q", name, test.got, test.want)
		}
	}
	// Merging writes while it reads.
	for e, err := range s.Find("b", 0, math.MaxInt64) {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Delete("b", e.Start, e.End); err != nil {
			t.Fatal(err)
		}
		putSession(t, s, "b", e.Start, 130_000, e.Value)
	}
	if got := sessionsOf(t, s.Fetch("b")); got != "b@10000-130000=2 b@20000-130000=3 b@30000-130000=4 b@100000-130000=1" {
		t.Errorf("merged: %q", got)
	}
}

// TestSessionExpires: it is the end that counts, whenever the session began.
func TestSessionExpires(t *testing.T) {
	s, task := newSession(t)
	putSession(t, s, "k", 10, 5000, 1)
	putSession(t, s, "k", 10, 5001, 2)
	task.Mark()
	putSession(t, s, "k", 20, 5000+retention, 3)
	if got := sessionsOf(t, s.Fetch("k")); got != "k@10-5001=2 k@20-125000=3" {
		t.Errorf("the key has %q", got)
	}
	if got := sessionsOf(t, s.All()); got != "k@10-5001=2 k@20-125000=3" {
		t.Errorf("the store has %q", got)
	}
	if _, ok, err := s.Get("k", 10, 5000); ok || err != nil {
		t.Errorf("an expired session: %t, %v", ok, err)
	}
	if stored, err := s.Put("k", 1, 5000, 1); stored || err != nil {
		t.Errorf("a late put: %t, %v", stored, err)
	}
	if err := s.Delete("k", 10, 5000); err != nil {
		t.Errorf("a late delete: %v", err)
	}
	task.Revert()
	if got := sessionsOf(t, s.Fetch("k")); got != "k@10-5000=1 k@10-5001=2" {
		t.Errorf("after the revert the key has %q", got)
	}
}

func TestSessionTimes(t *testing.T) {
	s, task := newSession(t)
	for _, at := range [][2]int64{{-1, 5}, {5, 4}, {0, 60_000 << 32}, {math.MinInt64, math.MaxInt64}, {-2, -1}} {
		_, put := s.Put("k", at[0], at[1], 1)
		_, _, get := s.Get("k", at[0], at[1])
		for op, err := range map[string]error{"put": put, "get": get, "delete": s.Delete("k", at[0], at[1])} {
			if !errors.Is(err, state.ErrTime) {
				t.Errorf("%s at %v: got %v, want ErrTime", op, at, err)
			}
		}
	}
	if at := task.Store("s").StreamTime(); at != 0 {
		t.Errorf("the stream time is %d, want 0", at)
	}
}
