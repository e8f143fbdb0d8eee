package pebblestore

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/state"
)

// habit is the recent result of lookups in a store: the share of the last few dozen lookups that
// found nothing, from 0 to habitMax. One of two concurrent lookups may not be counted.
type habit struct {
	absent atomic.Int32
	// filter knows the keys of the store, or is nil.
	filter atomic.Pointer[keyFilter]
	// unasked is how many lookups in a row did not ask the filter, because those before had mostly
	// found something.
	unasked atomic.Int64
	// rest is how many lookups pass before another filter is made, filling is set while one is.
	rest    atomic.Int64
	filling atomic.Bool
	// suffix is state.Layout.Suffix of the store. If it is not 0, lookups are of all rows of a key
	// at once, and the filter has keys without suffix.
	suffix atomic.Int32
	// writes says that what is looked up is written as a rule, found or not.
	writes atomic.Bool
}

const (
	habitMax   = 1 << 16
	habitShare = 32
	// unaskedMin is for how many lookups a filter is kept at least that none of them asks.
	unaskedMin = 4 * filterKeys
)

func (h *habit) expectsAbsent() bool { return h.absent.Load() > habitMax/2 }

// worthFilter reports whether lookups find nothing so often that a filter is worth its cost. A
// lookup of all rows of a key that no filter spares is a scan, which costs several times as much.
func (h *habit) worthFilter() bool {
	if h.suffix.Load() == 0 {
		return h.expectsAbsent()
	}
	return h.absent.Load() > habitMax/16
}

// declare notes the layout of the store.
func (h *habit) declare(l state.Layout) {
	if n := int32(l.Suffix()); h.suffix.Swap(n) != n {
		if f := h.filter.Load(); f != nil {
			h.drop(f)
		}
	}
	// A session that is looked up becomes part of another one or is not there; either way a row is
	// written. In a join of two streams each looks up what the other one has written.
	h.writes.Store(l.Kind == state.SessionKind)
}

// hashFor returns the hash by which the filter of the store has a database key.
func (h *habit) hashFor(key []byte) uint64 {
	if n := int(h.suffix.Load()); n > 0 && len(key) >= dataPrefixSize+n {
		buffer := keyBuffers.Get().(*[]byte)
		defer keyBuffers.Put(buffer)
		*buffer = appendGroupKey((*buffer)[:0], key, n)
		return hashOf(*buffer)
	}
	return hashOf(key)
}

func (h *habit) saw(found bool) {
	was := h.absent.Load()
	now := was - was/habitShare
	if !found {
		now += habitMax / habitShare
	}
	if now != was {
		h.absent.Store(now)
	}
}

// wantsFilter reports whether it is time to make a filter, to one caller.
func (h *habit) wantsFilter() bool {
	if !h.worthFilter() || h.filter.Load() != nil {
		return false
	}
	return h.rest.Add(-1) < 0 && h.filling.CompareAndSwap(false, true)
}

// asks reports whether a lookup should query the filter. It should while lookups mostly find
// nothing. A filter that was unused for as many lookups as it has room for keys is dropped: making
// a new one costs as much. Its memory is used elsewhere, and keys need not be added to it.
func (h *habit) asks(f *keyFilter) bool {
	if h.worthFilter() {
		if h.unasked.Load() != 0 {
			h.unasked.Store(0)
		}
		return true
	}
	if n := h.unasked.Add(1); n > unaskedMin && n > f.size() {
		h.unasked.Store(0)
		h.drop(f)
	}
	return false
}

// knowsAbsent reports whether the filter says that there is no key with a hash, and counts that.
func (h *habit) knowsAbsent(hash uint64) bool {
	f := h.filter.Load()
	if f == nil || !f.ready.Load() || !h.asks(f) || f.mayHave(hash) {
		return false
	}
	h.saw(false)
	return true
}

// drop gives a filter up. Making the next one costs a look at each key: that is for after as many
// lookups. Most keys in a full filter of a store whose rows expire have no row any more.
func (h *habit) drop(f *keyFilter) {
	h.filter.CompareAndSwap(f, nil)
	rest := f.end()
	if h.suffix.Load() > 0 {
		rest = 0
	}
	h.rest.Store(rest + filterKeys)
}

// habits has the habit of each store with lookups. Stores are few and never removed, so readers use
// the map without a lock.
type habits struct {
	mu      sync.Mutex
	byStore atomic.Pointer[map[state.StoreID]*habit]
}

func (h *habits) of(store state.StoreID) *habit {
	if m := h.byStore.Load(); m != nil {
		if found := (*m)[store]; found != nil {
			return found
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := map[state.StoreID]*habit{}
	if old := h.byStore.Load(); old != nil {
		maps.Copy(m, *old)
	}
	if m[store] == nil {
		m[store] = new(habit)
	}
	h.byStore.Store(&m)
	return m[store]
}

// end drops all filters, after the last lookup.
func (h *habits) end() {
	if m := h.byStore.Load(); m != nil {
		for _, one := range *m {
			if f := one.filter.Load(); f != nil {
				one.drop(f)
			}
		}
	}
}
