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
)

var seriesLayout = state.Layout{Kind: state.SeriesKind, Retention: retention}

func newSeries(t testing.TB) (state.Series[string, uint64], *state.Task) {
	task := newTimedTask(t, seriesLayout)
	return state.NewSeries(task.Store("s"), text{}, number{}, seriesLayout), task
}

// seriesOf spells a fetch, "time/number=value" for each value.
func seriesOf(t testing.TB, seq iter.Seq2[state.SeriesEntry[uint64], error]) string {
	t.Helper()
	var all []string
	for e, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%d/%d=%d", e.Time, e.Sequence, e.Value))
	}
	return strings.Join(all, " ")
}

func addTo(t testing.TB, s state.Series[string, uint64], key string, ms int64, value uint64, number uint32) {
	t.Helper()
	if got, stored, err := s.Add(key, ms, value); got != number || !stored || err != nil {
		t.Fatalf("add to %q at %d: number %d, %t, %v; want number %d", key, ms, got, stored, err, number)
	}
}

// TestSeries: every value stays, in the order of times and, within one time, in that of adding.
func TestSeries(t *testing.T) {
	s, _ := newSeries(t)
	for i, at := range []int64{130_000, 10_001, 60_000, 119_999, 59_999} { // in three segments
		addTo(t, s, "b", at, uint64(i), 0)
	}
	addTo(t, s, "b", 60_000, 5, 1)
	addTo(t, s, "b", 60_000, 2, 2)
	addTo(t, s, "a", 60_000, 7, 0)
	for name, test := range map[string]struct{ got, want string }{
		"all":   {seriesOf(t, s.Fetch("b", math.MinInt64, math.MaxInt64)), "10001/0=1 59999/0=4 60000/0=2 60000/1=5 60000/2=2 119999/0=3 130000/0=0"},
		"span":  {seriesOf(t, s.Fetch("b", 60_000, 119_998)), "60000/0=2 60000/1=5 60000/2=2"},
		"none":  {seriesOf(t, s.Fetch("b", 130_001, math.MaxInt64)), ""},
		"empty": {seriesOf(t, s.Fetch("b", 60_000, 59_999)), ""},
		"other": {seriesOf(t, s.Fetch("a", 0, math.MaxInt64)), "60000/0=7"},
	} {
		if test.got != test.want {
			t.Errorf("%s is %q, want %q", name, test.got, test.want)
		}
	}
	if v, ok, err := s.Get("b", 60_000, 1); v != 5 || !ok || err != nil {
		t.Errorf("got %d, %t, %v", v, ok, err)
	}
	if _, ok, err := s.Get("b", 60_000, 3); ok || err != nil {
		t.Errorf("a number that is not there: %t, %v", ok, err)
	}
}

// TestSeriesExpires: stream time - retention is the last time that is gone, for every read and
// write. A record that fails takes its time and its values back.
func TestSeriesExpires(t *testing.T) {
	s, task := newSeries(t)
	addTo(t, s, "k", 5000, 1, 0)
	addTo(t, s, "k", 5001, 2, 0)
	task.Mark()
	addTo(t, s, "k", 5001, 3, 1)
	addTo(t, s, "other", 5000+retention, 4, 0)
	if got := seriesOf(t, s.Fetch("k", 0, math.MaxInt64)); got != "5001/0=2 5001/1=3" {
		t.Errorf("the key has %q", got)
	}
	if _, ok, err := s.Get("k", 5000, 0); ok || err != nil {
		t.Errorf("an expired value: %t, %v", ok, err)
	}
	if _, stored, err := s.Add("k", 5000, 5); stored || err != nil {
		t.Errorf("a late value: %t, %v", stored, err)
	}
	task.Revert()
	addTo(t, s, "k", 5001, 6, 1)
	if got := seriesOf(t, s.Fetch("k", 0, math.MaxInt64)); got != "5000/0=1 5001/0=2 5001/1=6" {
		t.Errorf("after the revert the key has %q", got)
	}
}

// TestSeriesTimes: a time that no row can have is refused, and leaves the stream time as it was.
func TestSeriesTimes(t *testing.T) {
	s, task := newSeries(t)
	addTo(t, s, "k", 100, 1, 0)
	for _, at := range []int64{-1, math.MaxInt64/1_000_000 + 1, math.MinInt64, math.MaxInt64} {
		_, _, add := s.Add("k", at, 1)
		_, _, get := s.Get("k", at, 0)
		for op, err := range map[string]error{"add": add, "get": get} {
			if !errors.Is(err, state.ErrTime) {
				t.Errorf("%s at %d: got %v, want ErrTime", op, at, err)
			}
		}
	}
	if at := task.Store("s").StreamTime(); at != 100 {
		t.Errorf("the stream time is %d, want 100", at)
	}
}

// TestSeriesKeysApart: keys that go on with what looks like the rest of a row have numbers of their
// own.
func TestSeriesKeysApart(t *testing.T) {
	tail := func(ms uint64, number uint32, more string) string {
		return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, ms), number)) + more
	}
	keys := []string{"k", "", "k\x00", "k" + tail(60_000, 0, ""), "k" + tail(60_000, 1, ""), "k" + tail(60_000, 1, "\x00"),
		"k" + tail(60_000, 0, tail(60_000, 1, "")), "k" + tail(60_000, math.MaxUint32, ""), tail(60_000, 2, "")}
	s, _ := newSeries(t)
	for number := range uint32(4) {
		for _, key := range keys {
			addTo(t, s, key, 60_000, uint64(number), number)
			addTo(t, s, key, 60_001, uint64(number), number)
		}
	}
	const want = "60000/0=0 60000/1=1 60000/2=2 60000/3=3 60001/0=0 60001/1=1 60001/2=2 60001/3=3"
	for _, key := range keys {
		if got := seriesOf(t, s.Fetch(key, 0, math.MaxInt64)); got != want {
			t.Errorf("%q has %q", key, got)
		}
	}
}

// TestSeriesNumbersEnd: a value behind the last number is refused, and no other one is overwritten.
func TestSeriesNumbersEnd(t *testing.T) {
	s, task := newSeries(t)
	addTo(t, s, "k", 0, 1, 0)
	last := "\x00\x00\x00\x00k\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"
	if err := task.Store("s").Put([]byte(last), []byte{0, 0, 0, 0, 0, 0, 0, 9}); err != nil {
		t.Fatal(err)
	}
	if _, stored, err := s.Add("k", 0, 2); stored || err == nil || !strings.Contains(err.Error(), "4,294,967,296 values") {
		t.Errorf("got %t, %v", stored, err)
	}
}

// TestSeriesFetchFew: few values are those of Fetch, and cost no memory of their own. Many are left to
// Fetch.
func TestSeriesFetchFew(t *testing.T) {
	s, task := newSeries(t)
	task.Mark()
	for n := range uint32(3) {
		addTo(t, s, "few", 60_000, uint64(n), n)
	}
	addTo(t, s, "few", 1, 9, 0) // of an older segment
	values := make([]state.SeriesEntry[uint64], 0, 8)
	lists := state.NewSeries(listed{task.Store("s"), slices.Collect(entriesOf(t, task.Store("s")))}, text{}, number{}, seriesLayout)
	fetch := func() {
		var few bool
		var err error
		if values, few, err = lists.FetchFew(values[:0], "few", 0, math.MaxInt64); !few || err != nil || len(values) != 4 {
			t.Fatalf("%v, %t, %v", values, few, err)
		}
	}
	if n := testing.AllocsPerRun(100, fetch); n != 0 {
		t.Errorf("a fetch of few values makes %g allocations", n)
	}
	inStore, few, err := s.FetchFew(nil, "few", 0, math.MaxInt64)
	if !few || err != nil || !slices.Equal(inStore, values) {
		t.Errorf("the store has %v, %t, %v", inStore, few, err)
	}
	if first, last := values[0], values[3]; first != (state.SeriesEntry[uint64]{Time: 1, Value: 9}) ||
		last != (state.SeriesEntry[uint64]{Time: 60_000, Sequence: 2, Value: 2}) {
		t.Errorf("the values are %v", values)
	}
	scans := state.NewSeries(scanOnly{task.Store("s")}, text{}, number{}, seriesLayout)
	if got, few, err := scans.FetchFew(values[:1], "few", 0, math.MaxInt64); few || err != nil || len(got) != 1 {
		t.Errorf("a store that scans: %v, %t, %v", got, few, err)
	}
}

// listed is a store that reads the rows of a key from a list, without an allocation.
type listed struct {
	state.Bytes
	rows []state.Entry
}

func (l listed) KeyRows(dst []state.Entry, r state.KeyRange) ([]state.Entry, bool, error) {
	for _, e := range l.rows {
		if r.Contains(e.Key) {
			dst = append(dst, e)
		}
	}
	return dst, true, nil
}

func entriesOf(t testing.TB, b state.Bytes) iter.Seq[state.Entry] {
	return func(yield func(state.Entry) bool) {
		for e, err := range b.Scan(state.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(state.Entry{Key: slices.Clone(e.Key), Value: slices.Clone(e.Value)}) {
				return
			}
		}
	}
}

// scanOnly is a store that cannot read the rows of a key without a scan.
type scanOnly struct{ state.Bytes }

// TestSeriesErrors: errors of codecs and of the store end what they are in, and say what it was.
func TestSeriesErrors(t *testing.T) {
	s, task := newSeries(t)
	_, _, badKey := s.Add("bad", 1, 1)
	_, _, badValue := s.Add("k", 1, 13)
	for _, err := range []error{badKey, badValue} {
		if !errors.Is(err, errCodec) {
			t.Errorf("got %v, want that of the codec", err)
		}
	}
	if at := task.Store("s").StreamTime(); at != 0 {
		t.Errorf("an add that failed moved the stream time to %d", at)
	}
	addTo(t, s, "k", 1, 1, 0)
	other := state.NewSeries(task.Store("s"), text{}, shortNumber{}, seriesLayout)
	unknown := state.NewSeries(task.Store("nobody's"), text{}, number{}, seriesLayout)
	for name, test := range map[string]struct {
		seq  iter.Seq2[state.SeriesEntry[uint64], error]
		want error
	}{
		"key": {s.Fetch("bad", 0, 1), errCodec}, "value": {other.Fetch("k", 0, 1), errCodec},
		"unknown": {unknown.Fetch("k", 0, 1), state.ErrUnknownStore},
	} {
		var errs []error
		for _, err := range test.seq {
			errs = append(errs, err)
		}
		if len(errs) != 1 || !errors.Is(errs[0], test.want) {
			t.Errorf("%s: the fetch ended with %v, want %v alone", name, errs, test.want)
		}
	}
	for name, view := range map[string]state.Series[string, uint64]{"bad": s, "k": other} {
		held := []state.SeriesEntry[uint64]{{Value: 7}}
		if got, few, err := view.FetchFew(held, name, 0, 1); few || !errors.Is(err, errCodec) || len(got) != 1 {
			t.Errorf("%s: the fetch of few values: %v, %t, %v", name, got, few, err)
		}
	}
}
