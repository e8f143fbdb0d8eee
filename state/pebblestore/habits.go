package pebblestore

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/state"
)

// habit is what lookups of a store find: of the last few dozens of them, the share that found nothing, from 0 to habitMax.
// Two lookups at once may lose one of their votes.
type habit struct {
	absent atomic.Int32
	// filter knows the keys of the store, or is nil.
	filter atomic.Pointer[keyFilter]
	// rest is how many lookups pass before another filter is made, filling is set while one is.
	rest    atomic.Int64
	filling atomic.Bool
}

const (
	habitMax   = 1 << 16
	habitShare = 32
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

// drop gives a filter up. Making the next one costs a look at each key: that is for after as many lookups.
func (h *habit) drop(f *keyFilter) {
	h.filter.CompareAndSwap(f, nil)
	h.rest.Store(f.end() + filterKeys)
}

// habits has one for each store that is asked. Stores are few and are never forgotten: a reader takes the map as it is.
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
