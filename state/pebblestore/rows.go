package pebblestore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/onceward/onceward/state"
)

const (
	// keptOf is the part of the budget that filters and rows of all databases may take together,
	// keptShare of keptOf parts, and rowsShare what rows may take in any case. rowsAlone is for
	// those of a database without a budget.
	keptShare, keptOf = 3, 8
	rowsShare         = 8
	rowsAlone         = 1 << 20
	// rowsMin is the least that they work with.
	rowsMin = 4 * segmentBytes
	// rowBytesMax is the size of the largest row that is taken in.
	rowBytesMax = 4 << 10
	// rowsWorth is for how many that are kept in all of the memory one has to be asked for again.
	// With eight, five million accounts in four tasks had a fifth of the lookups from rows, and the
	// others read twice as many blocks, for which there was little memory left.
	rowsWorth = 2
	// rowsTrial is the part of the memory that is left to them where they were in vain.
	rowsTrial = 16
	// rowsLook is how many are found between two looks at the limit.
	rowsLook = 64
)

// rows are the last ones that were looked up in Pebble and found, with their values: for stores
// that are asked for the same keys again and again, such as balances. A block cache saves the disk
// in this case and not the search in each level, which takes microseconds.
//
// Where nearly all of them are forgotten before somebody asks again, the keys are too many, and
// they get a small part of the memory, until they would be worth all of it.
//
// What is in here is what Pebble has, or what the buffer above it has: every change passes here.
// Any number of goroutines may call it.
type rows struct {
	mu     sync.Mutex
	shared *Shared
	table  rowTable
	// stores are those of which rows were kept.
	stores map[state.StoreID]struct{}
	// changes goes up, and changing is set, while something else than this is about to have another
	// value. What was read meanwhile may be either, and is not kept.
	changes  uint64
	changing bool
	// hits and kept count since the first segment was reclaimed, after which judge looks at them
	// once all were.
	hits, kept int
	// trial is set while they have a small part of the memory.
	trial  bool
	memory reservation
}

// get looks a database key up; known is false when it is not here. The value is a copy. at is for
// keep.
func (r *rows) get(hash uint64, key []byte) (value []byte, found, known bool, at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changing {
		return nil, false, false, r.changes
	}
	kept := r.table.get(hash, key)
	if kept == nil {
		return nil, false, false, r.changes
	}
	r.hits++
	if r.hits%rowsLook == 0 {
		defer r.fit()
	}
	if kept.is(rowDeleted) {
		return nil, false, true, 0
	}
	return append(make([]byte, 0, kept.valueLen()), kept.value()...), true, true, 0
}

// keep takes in what was read from Pebble after get returned at.
func (r *rows) keep(store state.StoreID, hash uint64, key, value []byte, at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.changing || r.changes != at || len(key)+len(value) > rowBytesMax:
	case r.table.find(hash, key) >= 0: // another reader was faster
	default:
		r.stores[store] = struct{}{}
		filling := r.table.reclaimed == 0
		r.table.put(hash, key, value, r.limit())
		r.kept++
		if filling {
			r.hits, r.kept = 0, 0
		}
		r.judge()
		r.account()
	}
}

// limit is the memory that they may take.
func (r *rows) limit() int64 {
	limit := r.shared.rowsMax()
	if r.trial {
		return max(limit/rowsTrial, 2*segmentBytes)
	}
	return limit
}

// fit is a step towards the limit, which others may have lowered.
func (r *rows) fit() {
	r.table.shrink(r.limit())
	r.account()
}

// judge says, once all of the memory was used, whether it was worth it. A part of the memory finds
// so much less of keys that are all alike, so of it as much less is expected: few hot keys get all
// of it back, and so do many that all of it has room for.
func (r *rows) judge() {
	if r.table.reclaimed < r.table.live {
		return
	}
	part := 1
	if r.trial {
		part = rowsTrial
	}
	worth := r.hits*part >= r.kept/rowsWorth
	if !worth && !r.trial {
		r.table.clear()
	}
	r.trial, r.table.reclaimed = !worth, 0
}

// account makes the reservation follow what the table holds, up at once and down by a sixteenth.
func (r *rows) account() {
	held := r.table.held()
	if unused := r.memory.bytes - held; unused > 4*reserveStep && unused > r.memory.bytes/16 {
		r.memory.end()
	}
	r.memory.grow(held)
}

// begin is called before Pebble, or the buffer, gets new values, end after it, and in between
// update, which says which. Meanwhile every lookup goes to Pebble, which has all of a round or
// nothing.
func (r *rows) begin() {
	r.mu.Lock()
	r.changing = true
	r.changes++
	r.mu.Unlock()
}

// update gives those rows that are here their new values, and forgets all where a batch has a
// range.
func (r *rows) update(b *pebble.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table.count == 0 {
		return nil
	}
	limit := r.limit()
	defer r.fit()
	last, kept := state.StoreID(0), false
	for reader, first := b.Reader(), true; ; {
		kind, key, value, ok, err := reader.Next()
		if err != nil || !ok {
			return err
		}
		if kind == pebble.InternalKeyKindRangeDelete {
			r.forget()
			return nil
		}
		store, ok := storeOf(key)
		if !ok || kind != pebble.InternalKeyKindSet && kind != pebble.InternalKeyKindDelete {
			continue
		}
		if first || store != last { // a round is in the order of stores
			_, kept = r.stores[store]
			last, first = store, false
		}
		if !kept {
			continue
		}
		r.table.update(hashOf(key), key, value, kind == pebble.InternalKeyKindDelete, limit)
	}
}

func (r *rows) end() {
	r.mu.Lock()
	r.changing = false
	r.changes++
	r.mu.Unlock()
}

// clear forgets all.
func (r *rows) clear() {
	r.mu.Lock()
	r.forget()
	r.changes++
	r.mu.Unlock()
}

func (r *rows) forget() {
	r.table.clear()
	r.hits, r.kept = 0, 0
	r.memory.end()
}
