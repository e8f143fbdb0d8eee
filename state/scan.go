package state

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
)

// scanEntry is the write of a key in one layer. A nil value is a delete.
type scanEntry struct {
	key, value []byte
	// age is 0 for the open overlay and grows downwards.
	age int
}

// pending returns the newest write of each key of one store in r over all layers, in the order of
// the scan.
func (t *Task) pending(store uint32, r Range) []scanEntry {
	found := t.open.appendRange(nil, store, r)
	for i := len(t.frozen) - 1; i >= 0; i-- {
		found = t.frozen[i].appendRange(found, store, r, len(t.frozen)-i)
	}
	slices.SortFunc(found, func(a, b scanEntry) int {
		return cmp.Or(compareKeys(a.key, b.key, r.Reverse), cmp.Compare(a.age, b.age))
	})
	return slices.CompactFunc(found, func(a, b scanEntry) bool { return bytes.Equal(a.key, b.key) })
}

// merge yields the committed entries with the pending writes over them: a pending write replaces
// the committed entry of its key, a pending delete hides it. Both come in the order of the scan.
func merge(
	committed iter.Seq2[Entry, error], pending []scanEntry, reverse bool, yield func(Entry, error) bool,
) {
	for e, err := range committed {
		if err != nil {
			yield(Entry{}, err)
			return
		}
		hidden := false
		for len(pending) > 0 {
			c := compareKeys(pending[0].key, e.Key, reverse)
			if c > 0 {
				break
			}
			p := pending[0]
			pending = pending[1:]
			hidden = hidden || c == 0
			if p.value != nil && !yield(Entry{Key: p.key, Value: p.value}, nil) {
				return
			}
		}
		if !hidden && !yield(e, nil) {
			return
		}
	}
	for _, p := range pending {
		if p.value != nil && !yield(Entry{Key: p.key, Value: p.value}, nil) {
			return
		}
	}
}

func compareKeys(a, b []byte, reverse bool) int {
	if reverse {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}
