package state

import (
	"bytes"
	"slices"
	"sort"
)

// ordered is the order of the keys of one store in an open overlay. It exists only for stores that
// are scanned, from their first scan on; the others have no cost. Each scan updates it, and not
// each write. So a scan after few writes is cheap, and writes without a scan cost nothing.
type ordered struct {
	store uint32
	// entries are the indexes of the store's entries below upto, in the order of their keys.
	entries []uint32
	upto    int
}

// order returns the indexes of all entries of a store, in the order of their keys. It is valid
// until the next write.
//
// The cost of an update is sorting the new keys since the last scan, one binary search for each,
// and one move of the indexes behind the smallest. A balanced tree would save the move. For the
// sizes of a round, four bytes an entry, the tree's pointers cost more.
func (o *overlay) order(store uint32) []uint32 {
	i := slices.IndexFunc(o.scanned, func(r ordered) bool { return r.store == store })
	if i < 0 {
		i = len(o.scanned)
		o.scanned = append(o.scanned, ordered{store: store})
	}
	r := &o.scanned[i]
	have := len(r.entries)
	for i := r.upto; i < len(o.entries); i++ {
		if o.entries[i].store == store {
			r.entries = append(r.entries, uint32(i))
		}
	}
	r.upto = len(o.entries)
	if len(r.entries) > have {
		o.mergeTail(r.entries, have)
	}
	return r.entries
}

// mergeTail puts the indexes from have on, which are in no order, between those before, which are
// in order.
func (o *overlay) mergeTail(order []uint32, have int) {
	byKey := func(a, b uint32) int { return bytes.Compare(o.entries[a].key, o.entries[b].key) }
	tail := slices.Clone(order[have:])
	slices.SortFunc(tail, byKey)
	// Merge from the largest key down. Position end+len(tail) and all behind it are final.
	end := have
	for len(tail) > 0 {
		last := len(tail) - 1
		position, _ := slices.BinarySearchFunc(order[:end], tail[last], byKey)
		copy(order[position+last+1:], order[position:end])
		order[position+last] = tail[last]
		tail, end = tail[:last], position
	}
}

// dropOrder takes entries that a revert removes, from index first on, out of the orders.
func (o *overlay) dropOrder(first int) {
	for i := range o.scanned {
		if r := &o.scanned[i]; r.upto > first {
			r.entries = slices.DeleteFunc(r.entries, func(e uint32) bool { return int(e) >= first })
			r.upto = first
		}
	}
}

// appendRange appends the entries of one store in r, in ascending order.
func (o *overlay) appendRange(dst []scanEntry, store uint32, r Range) []scanEntry {
	if len(o.entries) == 0 {
		return dst
	}
	order := o.order(store)
	first := sort.Search(len(order), func(i int) bool {
		return bytes.Compare(o.entries[order[i]].key, r.From) >= 0
	})
	for _, i := range order[first:] {
		e := &o.entries[i]
		if r.To != nil && bytes.Compare(e.key, r.To) >= 0 {
			break
		}
		dst = append(dst, scanEntry{key: e.key, value: e.value})
	}
	return dst
}
