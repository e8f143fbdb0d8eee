package pebblestore

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/state"
)

// habit is what lookups of a store find: of the last few dozens of them, the share that found
// nothing, from 0 to habitMax. Two lookups at once may lose one of their votes.
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
}

const (
	habitMax   = 1 << 16
	habitShare = 32
	// unaskedMin is for how many lookups a filter is kept at least that none of them asks.
	unaskedMin = 4 * filterKeys
)

func (h *habit) expectsAbsent() bool { return h.absent.Load() > habitMax/2 }

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
	if !h.expectsAbsent() || h.filter.Load() != nil {
		return false
	}
	return h.rest.Add(-1) < 0 && h.filling.CompareAndSwap(false, true)
}

// asks reports whether a lookup is worth asking the filter, which it is while lookups mostly find
// nothing. A filter that was not asked for as many lookups as it has room for keys, which is what
// the next one would cost to make, is given up: its memory is of more use elsewhere, and keys need
// not be added to it.
func (h *habit) asks(f *keyFilter) bool {
	if h.expectsAbsent() {
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

// drop gives a filter up. Making the next one costs a look at each key: that is for after as many
// lookups.
func (h *habit) drop(f *keyFilter) {
	h.filter.CompareAndSwap(f, nil)
	h.rest.Store(f.end() + filterKeys)
}

// habits has one for each store that is asked. Stores are few and are never forgotten: a reader
// takes the map as it is.
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

// end gives up all filters, when nobody looks anything up any more.
func (h *habits) end() {
	if m := h.byStore.Load(); m != nil {
		for _, one := range *m {
			if f := one.filter.Load(); f != nil {
				one.drop(f)
			}
		}
	}
}
