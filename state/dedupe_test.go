package state_test

import (
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

var dedupeLayout = state.Layout{Kind: state.DedupeKind, Retention: 10 * time.Minute.Milliseconds()}

// newKind returns a task with one store "s" of that layout.
func newKind(t *testing.T, l state.Layout) *state.Task {
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

func collect[T any](t *testing.T, seq iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// TestDedupeLogsDeletesFirst: an id that is deleted and comes back in the same round, in an earlier
// segment, is what compaction leaves.
func TestDedupeLogsDeletesFirst(t *testing.T) {
	task := newKind(t, dedupeLayout)
	s := state.NewDedupe(task.Store("s"), text{}, number{}, dedupeLayout)
	minute := time.Minute.Milliseconds()
	put := func(id string, v uint64, ms int64) {
		t.Helper()
		if _, p, err := s.PutIfAbsent(id, v, ms); p != state.Absent || err != nil {
			t.Fatalf("%s is %v, %v", id, p, err)
		}
	}
	remove := func() {
		t.Helper()
		if ok, err := s.Delete("id"); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	put("id", 0, 6*minute) // its row is the first that is written, and the last one is the one of 14 minutes
	remove()
	put("id", 1, 14*minute)
	put("other", 1, 14*minute)
	remove()
	put("id", 2, 6*minute)
	last := map[string]state.ChangelogRecord{}
	n := 0
	for w := range task.Freeze().Logged() {
		r, err := dedupeLayout.Record(w)
		if err != nil {
			t.Fatal(err)
		}
		last[string(r.Key)] = r
		n++
	}
	if r := last["id"]; n != 3 || r.Value == nil || r.Timestamp != 6*minute {
		t.Errorf("of %d records, the last one of the id is %v", n, r)
	}
}

// counted counts the calls of Get.
type counted struct {
	state.Bytes
	gets int
}

func (c *counted) Get(key []byte) ([]byte, bool, error) {
	c.gets++
	return c.Bytes.Get(key)
}

// TestDedupeLooksIntoFewSegments: an id that is not there costs a handful of lookups, at any time.
func TestDedupeLooksIntoFewSegments(t *testing.T) {
	task := newKind(t, dedupeLayout)
	c := &counted{Bytes: task.Store("s")}
	s := state.NewDedupe(c, text{}, number{}, dedupeLayout)
	for ms := int64(0); ms < 5*dedupeLayout.Retention; ms += 7777 {
		c.Advance(ms)
		c.gets = 0
		if _, ok, err := s.Lookup("absent"); ok || err != nil {
			t.Fatal(ok, err)
		}
		if c.gets > 4 {
			t.Fatalf("%d lookups at stream time %d", c.gets, ms)
		}
	}
}

func TestDedupeErrors(t *testing.T) {
	task := newKind(t, dedupeLayout)
	s := state.NewDedupe(task.Store("s"), text{}, number{}, dedupeLayout)
	for _, ms := range []int64{-1, state.NoTime, 1 << 60} {
		if _, _, err := s.PutIfAbsent("a", 1, ms); !errors.Is(err, state.ErrTime) {
			t.Errorf("time %d: %v", ms, err)
		}
	}
	if now := task.Store("s").StreamTime(); now != 0 {
		t.Errorf("a time that was refused moved the stream time to %d", now)
	}
	if _, _, err := s.PutIfAbsent("bad", 1, 1); !errors.Is(err, errCodec) {
		t.Errorf("bad id: %v", err)
	}
	if _, _, err := s.PutIfAbsent("a", 13, 1); !errors.Is(err, errCodec) {
		t.Errorf("bad value: %v", err)
	}
	if ids := collect(t, s.All()); len(ids) != 0 {
		t.Errorf("%v were written", ids)
	}
	if names := []string{state.Absent.String(), state.Present.String(), state.TooLate.String(), state.Presence(9).String()}; !slices.Equal(names,
		[]string{"absent", "present", "too late", "none"}) {
		t.Errorf("the outcomes are %q", names)
	}
}

// TestDedupeDisplaced: a record puts an end to the rows of its id in all other segments that can be
// read.
func TestDedupeDisplaced(t *testing.T) {
	minute := time.Minute.Milliseconds()
	row, err := dedupeLayout.Row(state.ChangelogRecord{Key: []byte("id"), Value: []byte{1}, Timestamp: 16 * minute})
	if err != nil {
		t.Fatal(err)
	}
	var segments []byte
	for key := range dedupeLayout.Displaced(row.Key, 22*minute) {
		if string(key[4:]) != "id" {
			t.Errorf("the row %q is of another id", key)
		}
		segments = append(segments, key[3])
	}
	// Segments are five minutes long, and what is after minute 12 can be read.
	if !slices.Equal(segments, []byte{2, 4}) {
		t.Errorf("the segments are %v", segments)
	}
	for range (state.Layout{Kind: state.VersionedKind, Retention: 1}).Displaced(row.Key, 1) {
		t.Error("a version displaces another row")
	}
}
