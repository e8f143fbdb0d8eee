package statetest_test

import (
	"math/rand/v2"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/state/statetest"
)

func newHistory() *statetest.History {
	return statetest.NewHistory(rand.New(rand.NewPCG(5, 5)), 30, 20, 10)
}

func TestHistoryOfOneSeedIsOneHistory(t *testing.T) {
	a, b := newHistory(), newHistory()
	if a.Operations() == 0 || a.Operations() != b.Operations() {
		t.Fatalf("%d and %d operations", a.Operations(), b.Operations())
	}
	db := memstore.New()
	if err := a.Apply(db, 0, 20); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Verify(db); err != nil || n != 20 {
		t.Fatalf("the second history finds %d rounds in a database of the first: %v", n, err)
	}
	if _, err := b.Locate(state.Positions{WrittenAt: 77}); err == nil {
		t.Error("positions of no round were located")
	}
}
