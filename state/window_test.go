package state_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// retention of the stores of these tests: two segments of a minute.
const retention = 2 * 60_000

var (
	windowLayout  = state.Layout{Kind: state.WindowKind, Retention: retention}
	sessionLayout = state.Layout{Kind: state.SessionKind, Retention: retention}
)

func newTimedTask(t testing.TB, l state.Layout) *state.Task {
	t.Helper()
	task, err := state.NewTask(memstore.New(), []state.Declaration{{Name: "s", Layout: l}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := task.Close(); err != nil {
			t.Error(err)
		}
	})
	return task
}

func newWindow(t testing.TB) (state.Window[string, uint64], *state.Task) {
	task := newTimedTask(t, windowLayout)
	return state.NewWindow(task.Store("s"), text{}, number{}, windowLayout), task
}

// windowsOf spells a scan, "key@start=value" for each entry.
func windowsOf(t testing.TB, seq iter.Seq2[state.WindowEntry[string, uint64], error]) string {
	t.Helper()
	var all []string
	for e, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s@%d=%d", e.Key, e.Start, e.Value))
	}
	return strings.Join(all, " ")
}

func putWindow(t testing.TB, w state.Window[string, uint64], key string, start int64, value uint64) {
	t.Helper()
	if stored, err := w.Put(key, start, value, start+5); !stored || err != nil {
		t.Fatalf("put of %q at %d: %t, %v", key, start, stored, err)
	}
}

func TestWindow(t *testing.T) {
	w, _ := newWindow(t)
	for i, at := range []int64{130_000, 10_001, 60_000, 119_999, 59_999} { // in three segments
		putWindow(t, w, "b", at, uint64(i))
	}
	putWindow(t, w, "a", 120_000, 7)
	putWindow(t, w, "c", 10_001, 8)
	if v, ts, ok, err := w.Get("b", 60_000); v != 2 || ts != 60_005 || !ok || err != nil {
		t.Errorf("got %d at %d, %t, %v", v, ts, ok, err)
	}
	if _, _, ok, err := w.Get("b", 60_001); ok || err != nil {
		t.Errorf("a window that is not there: %t, %v", ok, err)
	}
	const all, last = math.MinInt64, math.MaxInt64
	for name, test := range map[string]struct{ got, want string }{
		"fetch": {windowsOf(t, w.Fetch("b", all, last)), "b@10001=1 b@59999=4 b@60000=2 b@119999=3 b@130000=0"},
		"span":  {windowsOf(t, w.Fetch("b", 59_999, 119_998)), "b@59999=4 b@60000=2"},
		"none":  {windowsOf(t, w.Fetch("b", 130_001, last)), ""},
		"empty": {windowsOf(t, w.Fetch("b", 60_000, 59_999)), ""},
		"back":  {windowsOf(t, w.FetchReverse("b", 59_999, last)), "b@130000=0 b@119999=3 b@60000=2 b@59999=4"},
		"all":   {windowsOf(t, w.All(60_000, 125_000)), "a@120000=7 b@60000=2 b@119999=3"},
		"range": {windowsOf(t, w.Scan(state.Range{From: []byte("b"), To: []byte("c"), Reverse: true}, all, 60_000)),
			"b@60000=2 b@59999=4 b@10001=1"},
		"from": {windowsOf(t, w.Scan(state.Range{From: []byte("bb")}, all, last)), "c@10001=8"},
	} {
		if test.got != test.want {
			t.Errorf("%s is %q, want %q", name, test.got, test.want)
		}
	}
	if err := w.Delete("b", 60_000); err != nil {
		t.Fatal(err)
	}
	if _, present, stored, err := w.PutIfAbsent("b", 60_000, 9, 60_000); present || !stored || err != nil {
		t.Errorf("put-if-absent after a delete: %t, %t, %v", present, stored, err)
	}
	if v, present, stored, err := w.PutIfAbsent("b", 60_000, 10, 60_000); v != 9 || !present || stored || err != nil {
		t.Errorf("put-if-absent: %d, %t, %t, %v", v, present, stored, err)
	}
}

// TestWindowExpires: stream time - retention is the last start that is gone, in every read and for
// every write.
func TestWindowExpires(t *testing.T) {
	w, task := newWindow(t)
	putWindow(t, w, "k", 5000, 1)
	putWindow(t, w, "k", 5001, 2)
	task.Mark()
	putWindow(t, w, "other", 5000+retention, 3)
	if got := windowsOf(t, w.All(0, math.MaxInt64)); got != "k@5001=2 other@125000=3" {
		t.Errorf("the store holds %q", got)
	}
	if got := windowsOf(t, w.Fetch("k", 0, math.MaxInt64)); got != "k@5001=2" {
		t.Errorf("the key has %q", got)
	}
	if _, _, ok, err := w.Get("k", 5000); ok || err != nil {
		t.Errorf("an expired window: %t, %v", ok, err)
	}
	if stored, err := w.Put("k", 5000, 4, 5000); stored || err != nil {
		t.Errorf("a late put: %t, %v", stored, err)
	}
	if _, present, stored, err := w.PutIfAbsent("k", 5000, 4, 5000); present || stored || err != nil {
		t.Errorf("a late put-if-absent: %t, %t, %v", present, stored, err)
	}
	if err := w.Delete("k", 5000); err != nil {
		t.Errorf("a late delete: %v", err)
	}
	// The record that moved the time fails: what had expired by it is there again, and not deleted.
	task.Revert()
	if got := windowsOf(t, w.All(0, math.MaxInt64)); got != "k@5000=1 k@5001=2" {
		t.Errorf("after the revert the store holds %q", got)
	}
}

// TestWindowTimes: a time that no row can have is refused, and leaves the stream time as it was.
func TestWindowTimes(t *testing.T) {
	w, task := newWindow(t)
	putWindow(t, w, "k", 100, 1)
	const limit = math.MaxInt64/1_000_000 + 1 // a client keeps the timestamps of records in nanoseconds
	for _, at := range []int64{-1, limit, math.MinInt64, math.MaxInt64} {
		_, put := w.Put("k", at, 1, max(at, 0))
		_, stamp := w.Put("k", 100, 1, at)
		_, _, _, absent := w.PutIfAbsent("k", at, 1, max(at, 0))
		_, _, _, get := w.Get("k", at)
		for op, err := range map[string]error{
			"put": put, "timestamp": stamp, "put-if-absent": absent, "get": get, "delete": w.Delete("k", at),
		} {
			if !errors.Is(err, state.ErrTime) {
				t.Errorf("%s at %d: got %v, want ErrTime", op, at, err)
			}
		}
	}
	if at := task.Store("s").StreamTime(); at != 100 {
		t.Errorf("the stream time is %d, want 100", at)
	}
	if stored, err := w.Put("k", limit-1, 2, limit-1); !stored || err != nil {
		t.Fatal(stored, err)
	}
	if got := windowsOf(t, w.All(math.MinInt64, math.MaxInt64)); got != fmt.Sprintf("k@%d=2", limit-1) {
		t.Errorf("at the end of time the store holds %q", got)
	}
}

// TestWindowKeysApart: keys that go on with what looks like the rest of a row are other keys.
func TestWindowKeysApart(t *testing.T) {
	at := func(ms uint64, more string) string {
		return string(binary.BigEndian.AppendUint64(nil, ms)) + more
	}
	const zero = "\x00\x00\x00\x00"
	keys := []string{"k", "", "k\x00", "k" + zero, "k" + zero + zero + zero, "k" + at(60_000, ""), "k" + at(60_000, zero),
		"k" + at(60_000, zero+"\x00"), "k" + at(59_000, at(60_000, "")), at(60_000, zero), "k" + at(1, "x")}
	w, _ := newWindow(t)
	starts := []int64{1, 30_000, 60_000, 90_000, 119_999}
	for _, key := range keys {
		for _, start := range starts {
			putWindow(t, w, key, start, 1)
		}
	}
	for _, key := range keys {
		for _, seq := range []iter.Seq2[state.WindowEntry[string, uint64], error]{
			w.Fetch(key, 0, 119_999), w.FetchReverse(key, 0, 119_999),
			w.Scan(state.Range{From: []byte(key), To: append([]byte(key), 0)}, 0, math.MaxInt64),
		} {
			var got []int64
			for e, err := range seq {
				if err != nil || e.Key != key {
					t.Fatalf("fetch of %q gave %q, %v", key, e.Key, err)
				}
				got = append(got, e.Start)
			}
			if slices.Sort(got); !slices.Equal(got, starts) {
				t.Errorf("%q has the windows %v, want %v", key, got, starts)
			}
		}
	}
}

// TestWindowScanSnapshot: a scan over several segments sees nothing that is written while it runs,
// expiry included.
func TestWindowScanSnapshot(t *testing.T) {
	w, _ := newWindow(t)
	for _, at := range []int64{1, 60_000, 119_000} {
		putWindow(t, w, "k", at, 1)
	}
	for name, seq := range map[string]iter.Seq2[state.WindowEntry[string, uint64], error]{
		"fetch": w.Fetch("k", 0, math.MaxInt64), "reverse": w.FetchReverse("k", 0, math.MaxInt64), "all": w.All(0, math.MaxInt64),
	} {
		n := 0
		for e, err := range seq {
			if err != nil || e.Value != 1 {
				t.Fatalf("%s: window %d is %d, %v", name, e.Start, e.Value, err)
			}
			n++
			for _, at := range []int64{1, 2, 60_001, 119_000, 120_000} { // 120,000 lets 0 expire and nothing else
				putWindow(t, w, "k", at, 2)
			}
		}
		if n != 3 {
			t.Errorf("%s saw %d windows, want 3", name, n)
		}
		for _, at := range []int64{2, 60_001, 120_000} {
			if err := w.Delete("k", at); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range []int64{1, 60_000, 119_000} {
			putWindow(t, w, "k", at, 1)
		}
	}
}

// TestWindowErrors: errors of codecs and of the store end what they are in, and say what it was.
func TestWindowErrors(t *testing.T) {
	w, task := newWindow(t)
	_, badKey := w.Put("bad", 1, 1, 1)
	_, badValue := w.Put("k", 1, 13, 1)
	for _, err := range []error{badKey, badValue} {
		if !errors.Is(err, errCodec) {
			t.Errorf("got %v, want that of the codec", err)
		}
	}
	if at := task.Store("s").StreamTime(); at != 0 {
		t.Errorf("a put that failed moved the stream time to %d", at)
	}
	putWindow(t, w, "k", 1, 1)
	other := state.NewWindow(task.Store("s"), text{}, shortNumber{}, windowLayout)
	unknown := state.NewWindow(task.Store("nobody's"), text{}, number{}, windowLayout)
	for name, test := range map[string]struct {
		seq  iter.Seq2[state.WindowEntry[string, uint64], error]
		want error
	}{
		"key":           {w.Fetch("bad", 0, 1), errCodec},
		"value":         {other.Fetch("k", 0, 1), errCodec},
		"value of all":  {other.All(0, 1), errCodec},
		"unknown fetch": {unknown.Fetch("k", 0, 1), state.ErrUnknownStore},
		"unknown all":   {unknown.All(0, 1), state.ErrUnknownStore},
	} {
		var errs []error
		for _, err := range test.seq {
			errs = append(errs, err)
		}
		if len(errs) != 1 || !errors.Is(errs[0], test.want) {
			t.Errorf("%s: the scan ended with %v, want %v alone", name, errs, test.want)
		}
	}
}

// shortNumber decodes nothing.
type shortNumber struct{ number }

func (shortNumber) Decode([]byte) (uint64, error) { return 0, errCodec }
