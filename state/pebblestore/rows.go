package pebblestore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/onceward/onceward/state"
)

const (
	// rowsShare is the part of the budget that the rows of all databases may take, rowsAlone what those of a database without one may.
	rowsShare = 8
	rowsAlone = 1 << 20
	// rowsMin is the least that they work with.
	rowsMin = 64 << 10
	// rowBytesMax is the size of the largest row that is taken in. One that grows later may be so many times as large.
	rowBytesMax, rowGrowthMax = 4 << 10, 16
	// rowsRest is for how many times what was kept in vain nothing is kept.
	rowsRest = 16
)

// rows are the last ones that were looked up in Pebble and found, with their values: for stores that are asked for the same keys again and
// again, such as balances. A block cache saves the disk in this case and not the search in each level, which takes microseconds.
//
// It is two hash tables. A row goes into the young one; when that is full it becomes the old one, and the rows of the old one that nobody
// has asked for since are forgotten. Where that is nearly all of them, the keys are too many, and rows rest for a while.
//
// What is in here is what Pebble has, or what the buffer above it has: every change passes here. Any number of goroutines may call it.
type rows struct {
	mu         sync.Mutex
	shared     *Shared
	young, old *buffer
	// stores are those of which rows were kept.
	stores map[state.StoreID]struct{}
	// changes goes up, and changing is set, while something else than this is about to have another value. What was read meanwhile
	// may be either, and is not kept.
	changes  uint64
	changing bool
	// hits counts since the young ones were begun.
	hits int
	// rest is the number of rows that are not kept, after those that were kept in vain.
	rest   int
	memory reservation
}

// get looks a database key up; known is false when it is not here. The value is a copy. at is for keep.
func (r *rows) get(hash uint64, key []byte) (value []byte, found, known bool, at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changing {
		return nil, false, false, r.changes
	}
	if b, i := r.find(hash, key); b != nil {
		e := &b.entries[i]
		r.hits++
		if e.deleted {
			return nil, false, true, 0
		}
		value = append(make([]byte, 0, e.valueLen), b.value(e)...)
		if b == r.old {
			r.add(hash, key, value, false)
		}
		return value, true, true, 0
	}
	return nil, false, false, r.changes
}

// find returns where a key is.
func (r *rows) find(hash uint64, key []byte) (*buffer, int) {
	for _, b := range [...]*buffer{r.young, r.old} {
		if b != nil {
			if i := b.find(hash, key); i >= 0 {
				return b, i
			}
		}
	}
	return nil, -1
}

// keep takes in what was read from Pebble after get returned at.
func (r *rows) keep(store state.StoreID, hash uint64, key, value []byte, at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.changing || r.changes != at || len(key)+len(value) > rowBytesMax:
	case r.rest > 0:
		r.rest--
	default:
		r.stores[store] = struct{}{}
		r.add(hash, key, value, false)
	}
}

// add puts a row among the young ones.
func (r *rows) add(hash uint64, key, value []byte, deleted bool) {
	limit := min(r.shared.rowsMax()/2, bufferDataMax)
	if r.young != nil && r.young.held() > limit {
		r.turn()
	}
	if r.young == nil {
		r.young = newBuffer(0)
	}
	r.young.put(hash, key, value, deleted)
	r.account()
}

// turn makes the young ones old.
func (r *rows) turn() {
	r.young, r.old = nil, r.young
	if kept := len(r.old.entries); r.hits < kept/4 {
		r.old, r.rest = nil, kept*rowsRest
	}
	r.hits = 0
}

func (r *rows) account() {
	var held int64
	for _, b := range [...]*buffer{r.young, r.old} {
		if b != nil {
			held += b.held()
		}
	}
	if held < r.memory.bytes/2 {
		r.memory.end()
	}
	r.memory.grow(held)
}

// begin is called before Pebble, or the buffer, gets new values, end after it, and in between update, which says which. Meanwhile every lookup
// goes to Pebble, which has all of a round or nothing.
func (r *rows) begin() {
	r.mu.Lock()
	r.changing = true
	r.changes++
	r.mu.Unlock()
}

// update gives those rows that are here their new values, and forgets all where a batch has a range or a row that is too large.
func (r *rows) update(b *pebble.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil && r.old == nil {
		return nil
	}
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
		hash := hashOf(key)
		if b, _ := r.find(hash, key); b == nil {
			continue
		}
		if len(key)+len(value) > rowGrowthMax*rowBytesMax {
			r.forget() // it alone could not be taken out
			return nil
		}
		r.add(hash, key, value, kind == pebble.InternalKeyKindDelete)
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
	r.young, r.old = nil, nil
	r.memory.end()
}
