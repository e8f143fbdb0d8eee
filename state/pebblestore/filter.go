package pebblestore

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/onceward/onceward/state"
)

const (
	// filterBits is the size of a filter by key. With it about one lookup of five hundred goes on
	// to Pebble for nothing, for each part.
	filterBits = 14
	// filterKeys is the number of keys that the first part of a filter is made for. While filters
	// have half of their memory left, each further part is made for partFactor times the existing
	// keys. After that it is made for as many as exist (grow).
	filterKeys = 1 << 16
	partFactor = 3
	// filterShare is the part of the budget that all filters of a process may take; filtersAlone is
	// the limit of a filter without a budget. With an eighth, the filters of a ledger were dropped
	// before its state was four times the budget. Pebble's filters, which are then used instead,
	// take as much of the block cache.
	filterShare  = 4
	filtersAlone = 4 << 20
	// filterStep is the number of keys that are added in one step. While a filter is made, a Close
	// waits for one step at most.
	filterStep = 1 << 10
)

// keyFilter reports every key of a store as possibly present, and most other keys as absent. It is
// a Bloom filter in blocks of one cache line (Putze, Sanders, Singler: Cache-, Hash- and
// Space-Efficient Bloom Filters, 2007), in parts that grow with the store.
//
// It is for stores whose lookups mostly find nothing, such as those of ids. Pebble has such filters
// for each table, but each level costs a search for the table, its filter and its place in the
// cache: some microseconds altogether. Here each part costs one read of memory. The filter is made
// in memory on demand, from the content of the store, and thrown away with the database.
//
// Keys are added before they become visible, and never removed: a removed key costs useless
// lookups. A filter that has outgrown its share of the memory is rebuilt or dropped. All methods
// are safe for concurrent use.
type keyFilter struct {
	// ready is set when all keys are in that were in the store before.
	ready atomic.Bool
	parts atomic.Pointer[[]*filterPart]
	// mu is held to add.
	mu sync.Mutex
	// room is how many more keys the last part takes, and crowd how many after that, if there is no
	// memory for another part.
	room, crowd int64
	// keys is how many there are, less those that looked as if they were in the last part already.
	keys int64
	// bytes is the memory of the parts.
	bytes  int64
	memory reservation
	// full is set when the last part is crowded as well. From then on the filter is of no use.
	full bool
}

// filterPart is one Bloom filter of a fixed size.
type filterPart struct{ blocks []filterBlock }

// filterBlock has the bits of a key, one in each word.
type filterBlock [8]atomic.Uint64

// bitOf returns the bit of a key in the word of its block.
func bitOf(hash uint64, word int) uint64 { return 1 << (hash >> (6 * word) & 63) }

// block returns the block of a key. It takes other bits of the hash than bitOf does.
func (p *filterPart) block(hash uint64) *filterBlock {
	const spread = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio
	return &p.blocks[(hash*spread>>32)*uint64(len(p.blocks))>>32]
}

// has looks at four words at a time, which are one access to memory. Where it stops, word by word,
// would be a branch that cannot be foreseen: half of the bits of a full part are set. Of four at
// least one is missing fifteen times in sixteen.
func (p *filterPart) has(hash uint64) bool {
	b := p.block(hash)
	missing := bitOf(hash, 0)&^b[0].Load() | bitOf(hash, 1)&^b[1].Load() | bitOf(hash, 2)&^b[2].Load() | bitOf(hash, 3)&^b[3].Load()
	if missing != 0 {
		return false
	}
	missing = bitOf(hash, 4)&^b[4].Load() | bitOf(hash, 5)&^b[5].Load() | bitOf(hash, 6)&^b[6].Load() | bitOf(hash, 7)&^b[7].Load()
	return missing == 0
}

func (p *filterPart) add(hash uint64) {
	b := p.block(hash)
	for word := range b {
		if bit := bitOf(hash, word); b[word].Load()&bit == 0 {
			b[word].Or(bit)
		}
	}
}

// mayHave reports whether a key may be there. It is for a filter that is ready.
func (f *keyFilter) mayHave(hash uint64) bool {
	parts := *f.parts.Load()
	for i := len(parts) - 1; i >= 0; i-- { // the last one is the largest
		if parts[i].has(hash) {
			return true
		}
	}
	return false
}

// size is how many keys its parts were made for.
func (f *keyFilter) size() int64 {
	var blocks int
	for _, p := range *f.parts.Load() {
		blocks += len(p.blocks)
	}
	return int64(blocks) * 512 / filterBits
}

// add makes mayHave true for keys. It returns false when the filter is full.
func (f *keyFilter) add(hashes ...uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, hash := range hashes {
		if !f.addLocked(hash) {
			return false
		}
	}
	return true
}

func (f *keyFilter) addLocked(hash uint64) bool {
	if f.full {
		return false
	}
	last := f.last()
	if last != nil && last.has(hash) {
		return true
	}
	if f.room == 0 {
		if !f.grow() && !f.squeeze() {
			f.full = true
			return false
		}
		last = f.last()
	}
	last.add(hash)
	f.room--
	f.keys++
	return true
}

// last is the part that takes keys. An added key is not looked up in the other parts first, because
// that would cost a memory access for each. It would save only the second entry of a key that is
// written again after the filter has grown.
func (f *keyFilter) last() *filterPart {
	parts := f.parts.Load()
	if parts == nil {
		return nil
	}
	return (*parts)[len(*parts)-1]
}

// grow adds a part, if there is memory for it. While filters have half of their memory left, the
// part is for three times the existing keys, so that parts are few; after that, for as many as
// exist. Without the smaller step, the first filters to grow would leave no memory for others,
// although there is enough for all: stores of one topology grow alike. The caller holds mu.
func (f *keyFilter) grow() bool {
	return f.growBy(max(partFactor*f.keys, filterKeys), 2) || f.growBy(max(f.keys, filterKeys), 1)
}

// growBy adds a part for so many keys, if all filters are within one of so many parts of their
// memory then.
func (f *keyFilter) growBy(keys, of int64) bool {
	blocks := keys * filterBits / 512
	bytes := f.bytes + blocks*64
	if !f.memory.shared.filtersMayGrow(f.bytes, bytes, of) {
		return false
	}
	var parts []*filterPart
	if old := f.parts.Load(); old != nil {
		parts = *old
	}
	f.room, f.crowd, f.bytes = keys, keys, bytes
	f.memory.grow(bytes)
	parts = append(parts[:len(parts):len(parts)], &filterPart{blocks: make([]filterBlock, blocks)})
	f.parts.Store(&parts)
	return true
}

// squeeze lets the last part take twice the keys that it was made for. With half of the bits for
// each key, one lookup in twenty goes on to Pebble in vain; without a filter all would. The caller
// holds mu.
func (f *keyFilter) squeeze() bool {
	f.room, f.crowd = f.crowd, 0
	return f.room > 0
}

// end frees the memory, and returns the number of keys. A goroutine that still has the filter may
// query it, and cannot add keys.
func (f *keyFilter) end() (keys int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = true
	f.memory.end()
	return f.keys
}

// fillers are the goroutines that make filters.
type fillers struct {
	mu      sync.Mutex
	stop    chan struct{}
	stopped bool
	running sync.WaitGroup
}

// start starts one, and returns false if the database is being closed.
func (f *fillers) start(fill func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stopped {
		f.running.Go(fill)
	}
	return !f.stopped
}

// end ends all fillers.
func (f *fillers) end() {
	f.mu.Lock()
	if !f.stopped {
		f.stopped = true
		close(f.stop)
	}
	f.mu.Unlock()
	f.running.Wait()
}

// fill makes the filter of a store. After an error there is no filter; every other use of the
// database reports the error.
func (d *database) fill(store state.StoreID, h *habit) {
	f := &keyFilter{memory: reservation{shared: d.flusher.shared}}
	if f.memory.shared != nil {
		f.memory.use = &f.memory.shared.filters
	}
	if d.fillFilter(store, h, f) {
		f.ready.Store(true)
	} else {
		h.drop(f)
	}
	h.filling.Store(false)
}

// startFilling makes the filter of a store, unless another one is being made: then a later lookup
// asks again.
func (d *database) startFilling(store state.StoreID, h *habit) {
	shared := d.flusher.shared
	if shared != nil && !shared.filling.CompareAndSwap(false, true) {
		h.filling.Store(false)
		return
	}
	started := d.fillers.start(func() {
		d.fill(store, h)
		if shared != nil {
			shared.filling.Store(false)
		}
	})
	if !started && shared != nil {
		shared.filling.Store(false)
	}
}

func (d *database) fillFilter(store state.StoreID, h *habit, f *keyFilter) bool {
	s := &scanner{d: d} // for its way to close an iterator
	defer s.close()
	if !d.beginFilter(store, h, f, s) {
		return false
	}
	for move := s.it.First; ; move = s.it.Next {
		if more, ok := d.fillStep(move, s.it, h, f); !more {
			return ok
		}
		select {
		case <-d.fillers.stop:
			return false
		default:
		}
	}
}

// beginFilter publishes the filter and opens an iterator. From the one moment in which it holds
// applying on, every round adds its keys, and the iterator sees those of all rounds before.
func (d *database) beginFilter(store state.StoreID, h *habit, f *keyFilter, s *scanner) bool {
	d.applying.Lock()
	defer d.applying.Unlock()
	if d.drain("fill a filter") != nil {
		return false
	}
	d.life.RLock()
	defer d.life.RUnlock()
	if d.usableLocked("fill a filter") != nil {
		return false
	}
	f.mu.Lock()
	grown := f.grow()
	f.mu.Unlock()
	// A filter that was made since this one was requested stays: it has the same keys.
	if !grown || !h.filter.CompareAndSwap(nil, f) {
		return false
	}
	it, err := newIterator(d.db, store, state.Range{})
	if d.fault.read("fill a filter", err) != nil {
		return false
	}
	s.it = it
	s.opened()
	return true
}

// fillStep adds the next keys. It returns whether there are more, and if there are none whether the
// filter has all.
func (d *database) fillStep(move func() bool, it *pebble.Iterator, h *habit, f *keyFilter) (more, ok bool) {
	d.life.RLock()
	defer d.life.RUnlock()
	if d.usableLocked("fill a filter") != nil {
		return false, false
	}
	for range filterStep {
		if !move() {
			return false, d.fault.read("fill a filter", it.Error()) == nil
		}
		if !f.add(h.hashFor(it.Key())) {
			return false, false
		}
		move = it.Next
	}
	return true, true
}

// filterWriter adds the keys of a round to the filters of their stores.
type filterWriter struct {
	habits *habits
	store  state.StoreID
	habit  *habit
	// hashes are those of the keys of the store that are not added yet. Added together, their
	// accesses to memory overlap.
	hashes []uint64
}

// add is called for each write, with its database key.
func (w *filterWriter) add(write state.Write, key []byte) {
	if w.habit == nil || write.Store != w.store { // a round is in the order of stores
		w.flush()
		w.store, w.habit = write.Store, w.habits.of(write.Store)
	}
	if !write.Delete && w.habit.filter.Load() != nil {
		if w.hashes = append(w.hashes, w.habit.hashFor(key)); len(w.hashes) == filterStep {
			w.flush()
		}
	}
}

// flush must be called before the writes become visible.
func (w *filterWriter) flush() {
	if len(w.hashes) == 0 {
		return
	}
	if f := w.habit.filter.Load(); f != nil && !f.add(w.hashes...) {
		w.habit.drop(f)
	}
	w.hashes = w.hashes[:0]
}
