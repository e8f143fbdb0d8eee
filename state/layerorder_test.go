package state

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLayerOrder compares the order of a layer with that of a plain comparison, for keys that begin
// alike, are prefixes of each other, and have zeros where a shorter key has nothing.
func TestLayerOrder(t *testing.T) {
	ids := []StoreID{7, 3, 5, 4}
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		entries := randomEntries(rnd, ids[:3], rnd.IntN(200)) // one store has nothing
		want := make([]uint32, len(entries))
		for i := range want {
			want[i] = uint32(i)
		}
		slices.SortFunc(want, func(a, b uint32) int {
			x, y := &entries[a], &entries[b]
			return cmp.Or(cmp.Compare(ids[x.store], ids[y.store]), bytes.Compare(x.key, y.key))
		})
		if got := sortedEntries(entries, ids); !slices.Equal(got, want) {
			t.Fatalf("round %d: got %v, want %v", round, got, want)
		}
	}
}

// randomEntries have different keys in each store, most of them with few different bytes behind a
// prefix of the store.
func randomEntries(rnd *rand.Rand, ids []StoreID, n int) (entries []overlayEntry) {
	seen := map[string]bool{}
	for range n {
		store := uint32(rnd.IntN(len(ids)))
		key := bytes.Repeat([]byte{byte(store)}, int(store)*5)
		for range rnd.IntN(12) {
			key = append(key, byte(rnd.IntN(3)))
		}
		if name := fmt.Sprint(store, key); !seen[name] {
			seen[name] = true
			entries = append(entries, overlayEntry{key: key, store: store})
		}
	}
	return entries
}
