package state

import (
	"bytes"
	"iter"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
)

// Layer is the frozen overlay of one round in flight: its writes, coalesced, the last one of each
// key. It is immutable, so that any goroutine may read it while the task's owner goes on.
type Layer struct {
	overlay *overlay
	ids     []StoreID
	times   []int64
	layouts []Layout
	applied atomic.Bool

	sortOnce sync.Once
	sorted   []uint32
}

// Writes returns the writes in the order of store id and key: the same writes give the same
// sequence, whatever the order in which they were made. Keys and values must not be modified; they
// stay valid for ever.
func (l *Layer) Writes() iter.Seq[Write] {
	return func(yield func(Write) bool) {
		for _, i := range l.order() {
			if !yield(l.write(&l.overlay.entries[i])) {
				return
			}
		}
	}
}

func (l *Layer) write(e *overlayEntry) Write {
	return Write{Store: l.ids[e.store], Key: e.key, Value: e.value, Delete: e.value == nil}
}

// StreamTime returns the stream time of a store as the layer leaves it (Bytes.StreamTime). It goes
// into the positions that are applied with the layer; 0 for a store that the task did not declare.
func (l *Layer) StreamTime(store StoreID) int64 {
	if i := slices.Index(l.ids, store); i >= 0 {
		return l.times[i]
	}
	return 0
}

// Wrote reports whether there is a write to one of the stores for which of is true.
func (l *Layer) Wrote(of func(store StoreID) bool) bool {
	return slices.ContainsFunc(l.overlay.entries, func(e overlayEntry) bool { return of(l.ids[e.store]) })
}

// Len returns the number of writes.
func (l *Layer) Len() int { return len(l.overlay.entries) }

// Bytes returns an estimate of the memory that the layer holds, in the measure of Task.OpenBytes.
func (l *Layer) Bytes() int { return l.overlay.bytes() }

// order returns the indexes of the entries sorted by store id and key. They are sorted on first
// use, by whichever goroutine comes first: the owner should not pay for it when it freezes a layer
// that it never scans.
func (l *Layer) order() []uint32 {
	l.sortOnce.Do(func() { l.sorted = sortedEntries(l.overlay.entries, l.ids) })
	return l.sorted
}

// appendRange appends the entries of one store in r, in ascending order.
func (l *Layer) appendRange(dst []scanEntry, store uint32, r Range, age int) []scanEntry {
	order := l.order()
	id := l.ids[store]
	first := sort.Search(len(order), func(i int) bool {
		e := &l.overlay.entries[order[i]]
		return l.ids[e.store] > id || l.ids[e.store] == id && bytes.Compare(e.key, r.From) >= 0
	})
	for _, i := range order[first:] {
		e := &l.overlay.entries[i]
		if e.store != store || r.To != nil && bytes.Compare(e.key, r.To) >= 0 {
			break
		}
		dst = append(dst, scanEntry{key: e.key, value: e.value, age: age})
	}
	return dst
}
