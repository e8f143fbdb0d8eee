package statetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/state"
)

// Run checks the databases that open makes. Every call must give a new, empty database; the suite
// closes it.
func Run(t *testing.T, open func(t *testing.T) state.Database) {
	t.Helper()
	cases := []struct {
		name string
		test func(t *testing.T, db state.Database)
	}{
		{"a new database is empty", testEmpty},
		{"the later write of a batch counts", testLaterWrite},
		{"a batch copies what it keeps", testBatchCopies},
		{"empty is not absent", testEmptyValue},
		{"results are copies", testFreshCopies},
		{"positions that are not valid are refused", testInvalidPositions},
		{"a batch at another base is refused", testBase},
		{"a removed range is gone", testRemove},
		{"a load is one step", testLoad},
		{"a load in disorder is refused", testLoadRefused},
		{"stores do not mix", testStoresApart},
		{"ranges", testRanges},
		{"declared stores are listed", testDeclare},
		{"a view is a snapshot", testView},
		{"a closed database refuses", testClosed},
		{"scans see the moment of their start", testScanSnapshot},
		{"readers beside a writer", testConcurrent},
		{"a task while its layers are applied", testConcurrentTask},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			db := open(t)
			defer func() {
				if err := db.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			c.test(t, db)
		})
	}
	t.Run("a history", func(t *testing.T) { testHistory(t, open(t)) })
	t.Run("random programs", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			if err := Check(open(t), Programs(300).Draw(rt, "program")); err != nil {
				rt.Fatal(err)
			}
		})
	})
}

func testHistory(t *testing.T, db state.Database) {
	defer func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	h := NewHistory(rand.New(rand.NewPCG(1, 1)), 60, 40, 100)
	if err := db.Declare(h.Stores()...); err != nil {
		t.Fatal(err)
	}
	for i := range h.Rounds {
		if err := h.Apply(db, i, i+1); err != nil {
			t.Fatal(err)
		}
		if n, err := h.Verify(db); err != nil || n != i+1 {
			t.Fatalf("after round %d: %d rounds, %v", i+1, n, err)
		}
		// The same round again is a late resolver.
		if err := h.Apply(db, i, i+1); !errors.Is(err, state.ErrBase) {
			t.Fatalf("round %d a second time: got %v, want ErrBase", i+1, err)
		}
	}
}

// at returns positions that differ for each n.
func at(n int64) state.Positions {
	if n == 0 {
		return state.Positions{}
	}
	return state.Positions{
		Round:  state.RoundID{ProducerID: 1, Epoch: int16(n), Incarnation: 3},
		Inputs: []state.Input{{Topic: "in", Partition: 0, Offset: n, StreamTime: state.NoTime}},
	}
}

func mustApply(t *testing.T, db state.Database, from int64, writes ...state.Write) {
	t.Helper()
	if err := db.Apply(at(from), at(from+1), slices.Values(writes)); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

func setTo(store, key, value string) state.Write {
	return state.Write{Store: state.IDOf(store), Key: []byte(key), Value: []byte(value)}
}

func deleteOf(store, key string) state.Write {
	return state.Write{Store: state.IDOf(store), Key: []byte(key), Delete: true}
}

func mustHold(t *testing.T, r state.Reader, want stores) {
	t.Helper()
	if err := compareReader(r, want, storeNames, keys...); err != nil {
		t.Fatal(err)
	}
}
