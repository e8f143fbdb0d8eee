package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// sortKey is an entry with what decides most comparisons: eight bytes of its key, behind the bytes
// with which all keys of its store begin. Entries and keys lie all over the memory, in the order in
// which they were written. With the index alone each comparison would wait for four places of it;
// sortKeys lie side by side.
type sortKey struct {
	head  uint64
	entry uint32
}

// sortedEntries returns the indexes of entries in the order of store id and key.
func sortedEntries(entries []overlayEntry, ids []StoreID) []uint32 {
	if len(entries) == 0 {
		return nil
	}
	sorted := make([]uint32, 0, len(entries))
	byStore := make([][]sortKey, len(ids))
	for store, n := range entriesOf(entries, len(ids)) {
		byStore[store] = make([]sortKey, 0, n)
	}
	for i := range entries {
		s := entries[i].store
		byStore[s] = append(byStore[s], sortKey{entry: uint32(i)})
	}
	for _, store := range storesByID(ids) {
		keys := byStore[store]
		sortKeys(entries, keys)
		for _, k := range keys {
			sorted = append(sorted, k.entry)
		}
	}
	return sorted
}

// entriesOf returns how many entries each store has.
func entriesOf(entries []overlayEntry, stores int) []int {
	counts := make([]int, stores)
	for i := range entries {
		counts[entries[i].store]++
	}
	return counts
}

// storesByID returns the indexes of the stores in the order of their ids.
func storesByID(ids []StoreID) []int {
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
	return order
}

// sortKeys sorts entries of one store by their keys.
func sortKeys(entries []overlayEntry, keys []sortKey) {
	if len(keys) == 0 {
		return
	}
	prefix := commonPrefix(entries, keys)
	for i := range keys {
		keys[i].head = headOf(entries[keys[i].entry].key[prefix:])
	}
	slices.SortFunc(keys, func(a, b sortKey) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return bytes.Compare(entries[a.entry].key[prefix:], entries[b.entry].key[prefix:])
	})
}

// commonPrefix returns how many bytes all keys begin with. A ledger's keys begin with those of an
// account number, most of which are zero.
func commonPrefix(entries []overlayEntry, keys []sortKey) int {
	first := entries[keys[0].entry].key
	for _, k := range keys[1:] {
		key := entries[k.entry].key
		n := 0
		for n < len(first) && n < len(key) && first[n] == key[n] {
			n++
		}
		first = first[:n]
	}
	return len(first)
}

// headOf returns the first eight bytes as a number that is ordered as they are. A key that is
// shorter is followed by zeros: it may be equal to a longer one then, and never comes after one
// that is greater.
func headOf(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}
