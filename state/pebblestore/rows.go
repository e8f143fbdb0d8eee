package pebblestore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/onceward/onceward/state"
)

const (
	// keptShare of keptOf parts of the budget are for filters and rows of all databases together;
	// rowsShare is the minimum for rows. rowsAlone is for the rows of a database without a budget.
	keptShare, keptOf = 3, 8
	rowsShare         = 8
	rowsAlone         = 1 << 20
	// rowsMin is the least that they work with.
	rowsMin = 4 * segmentBytes
	// rowBytesMax is the size of the largest row that is taken in.
	rowBytesMax = 4 << 10
	// rowsWorth: the rows are worth all of the memory if one in that many kept rows is read again.
	// With eight, five million accounts in four tasks had a fifth of the lookups from rows. The
	// other lookups read twice as many blocks, for which there was little memory left.
	rowsWorth = 2
	// rowsTrial is the part of the memory that is left to them where they were in vain.
	rowsTrial = 16
	// rowsLook is how many are found between two looks at the limit.
	rowsLook = 64
)

// rows are the last rows that lookups found in Pebble, for stores whose keys are read again and
// again, such as balances. In this case a block cache saves the disk access but not the search in
// each level, which takes microseconds.
//
// If nearly all rows are evicted before they are read again, there are too many keys. Then rows get
// a small part of the memory, until they would be worth all of it.
//
// A row here has the value of Pebble or of the buffer above it, because every change passes here.
// All methods are safe for concurrent use.
type rows struct {
	mu     sync.Mutex
	shared *Shared
	table  rowTable
	// stores are those of which rows were kept.
	stores map[state.StoreID]struct{}
	// groups has the size of the suffix in stores of which groups were kept.
	groups map[state.StoreID]int
	// key and changed are buffers for the key of a group that is changed, and for what it becomes.
	key, changed []byte
	// changes goes up, and changing is set, while a value outside of rows is about to change. A
	// value that was read meanwhile may be old or new, and is not kept.
	changes  uint64
	changing bool
	// hits and kept count since the first segment was reclaimed, after which judge looks at them
	// once all were.
	hits, kept int
	// looks counts what was found, for the look at the limit.
	looks int
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
	if kept.is(rowDeleted) {
		r.hit(1)
		return nil, false, true, 0
	}
	value = append(make([]byte, 0, kept.valueLen()), kept.value()...)
	r.hit(1) // it may evict the row
	return value, true, true, 0
}

// hit counts a row that was found.
func (r *rows) hit(worth int) {
	r.hits += worth
	if r.looks++; r.looks%rowsLook == 0 {
		r.fit()
	}
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
		r.add(hash, key, value)
	}
}

// add takes in what is not here.
func (r *rows) add(hash uint64, key, value []byte) {
	filling := r.table.reclaimed == 0
	r.table.put(hash, key, value, r.limit())
	r.kept++
	if filling {
		r.hits, r.kept = 0, 0
	}
	r.judge()
	r.account()
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

// judge decides, once all of the memory was used, whether it was worth it. With a part of the
// memory, keys that are all alike are found proportionally less often, so proportionally less is
// expected. Few hot keys get all of the memory back. So do many keys that fit into all of it.
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

// update gives rows that are kept their new values, and drops those in a range that a batch
// deletes.
func (r *rows) update(b *pebble.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table.count == 0 {
		return nil
	}
	limit := r.limit()
	defer r.fit()
	last, kept, suffix := state.StoreID(0), false, 0
	for reader, first := b.Reader(), true; ; {
		kind, key, value, ok, err := reader.Next()
		if err != nil || !ok {
			return err
		}
		if kind == pebble.InternalKeyKindRangeDelete {
			r.table.removeRange(key, value)
			continue
		}
		store, ok := storeOf(key)
		if !ok || kind != pebble.InternalKeyKindSet && kind != pebble.InternalKeyKindDelete {
			continue
		}
		if first || store != last { // a round is in the order of stores
			_, kept = r.stores[store]
			suffix = r.groups[store]
			last, first = store, false
		}
		if suffix > 0 {
			r.updateGroup(key, value, kind == pebble.InternalKeyKindDelete, suffix, limit)
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

// clear drops all rows.
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
