package state

import (
	"bytes"
	"hash/maphash"
)

// entryOverhead is what one entry costs beside its key and value: the entry itself and about two
// slots of the table. It makes overlay.bytes an estimate of memory instead of payload.
const entryOverhead = 80

// overlay holds the uncommitted writes of one round: the last write of each key, in the order in
// which the keys were first written. It is a hash table with open addressing over an append-only
// list of entries, because a map of strings costs an allocation for each key, and a savepoint wants
// an order to go back in.
//
// Invariants:
//   - slots is nil or has a power of two length and is at most half full;
//   - each entry has exactly one slot, found by linear probing from its hash;
//   - entries leave only from the end (revert). Linear probing has no gaps then: the last entry
//     took a slot that was empty, and nothing was placed behind it since, so that clearing the slot
//     restores the table as it was. This is why no deleted-markers exist. Growing keeps it true by
//     inserting the entries again in their order.
type overlay struct {
	slots   []slot
	entries []overlayEntry
	keys    arena
	// values is the sum of the lengths of the current values.
	values int

	// The savepoint: entries from marked on are new since it, undo has what older ones held. logged
	// is false before the first mark, when there is nothing to go back to. A savepoint inside it is
	// a length of both lists.
	logged     bool
	marked     int
	generation uint32
	undo       []undoEntry

	// scanned has the orders of the stores that were scanned.
	scanned []ordered
	// groups finds the writes to one key, once there was a read of the rows of a key.
	groups *groups
}

// slot points to entry ref-1; zero is empty. The hash saves looking at most entries that are not
// the one.
type slot struct {
	hash uint32
	ref  uint32
}

// overlayEntry is the last write of one key. A nil value is a delete; an empty one is not.
type overlayEntry struct {
	key   []byte
	value []byte
	// store is the index of the store in its task.
	store uint32
	hash  uint32
	// generation is the savepoint in which the entry was last logged or made, those inside others
	// included: one undo entry a savepoint is enough.
	generation uint32
}

type undoEntry struct {
	entry      uint32
	generation uint32
	value      []byte
}

// newOverlay returns an empty overlay with room for about sizeHint entries. It allocates nothing
// for zero, because most rounds under a light load write little and an aborted or idle one nothing.
func newOverlay(sizeHint int) *overlay {
	o := &overlay{}
	if sizeHint > 0 {
		o.entries = make([]overlayEntry, 0, sizeHint)
		o.slots = make([]slot, slotsFor(sizeHint))
	}
	return o
}

// slotsFor returns the smallest power of two that is at most half full with n entries.
func slotsFor(n int) int {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return size
}

// hashKey mixes the store into the hash of the key. The seed is the task's, so that one hash serves
// all its layers.
func hashKey(seed maphash.Seed, store uint32, key []byte) uint32 {
	h := maphash.Bytes(seed, key) ^ uint64(store)*0x9e3779b97f4a7c15
	return uint32(h ^ h>>32)
}

// find returns the index of the entry of key, or -1.
func (o *overlay) find(hash, store uint32, key []byte) int {
	if len(o.slots) == 0 {
		return -1
	}
	mask := uint32(len(o.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := o.slots[i]
		if s.ref == 0 {
			return -1
		}
		if s.hash == hash {
			if e := &o.entries[s.ref-1]; e.store == store && bytes.Equal(e.key, key) {
				return int(s.ref - 1)
			}
		}
	}
}

// get returns the last write of key: found is false when there is none, value is nil when it was a
// delete.
func (o *overlay) get(hash, store uint32, key []byte) (value []byte, found bool) {
	if i := o.find(hash, store, key); i >= 0 {
		return o.entries[i].value, true
	}
	return nil, false
}

// put records the write of value, nil for a delete. It keeps value and copies key.
func (o *overlay) put(hash, store uint32, key, value []byte) {
	if i := o.find(hash, store, key); i >= 0 {
		e := &o.entries[i]
		if o.logged && e.generation != o.generation {
			o.undo = append(o.undo, undoEntry{entry: uint32(i), generation: e.generation, value: e.value})
			e.generation = o.generation
		}
		o.values += len(value) - len(e.value)
		e.value = value
		return
	}
	if 2*(len(o.entries)+1) > len(o.slots) {
		o.grow()
	}
	o.entries = append(o.entries, overlayEntry{
		key: o.keys.copy(key), value: value, store: store, hash: hash, generation: o.generation,
	})
	o.values += len(value)
	o.place(hash, uint32(len(o.entries)))
}

// place puts ref into the first free slot of hash.
func (o *overlay) place(hash, ref uint32) {
	mask := uint32(len(o.slots) - 1)
	i := hash & mask
	for o.slots[i].ref != 0 {
		i = (i + 1) & mask
	}
	o.slots[i] = slot{hash: hash, ref: ref}
}

func (o *overlay) grow() {
	o.slots = make([]slot, slotsFor(max(8, 2*len(o.entries))))
	for i := range o.entries {
		o.place(o.entries[i].hash, uint32(i+1))
	}
}

// mark accepts everything written so far and begins a new savepoint.
func (o *overlay) mark() {
	o.logged = true
	o.marked = len(o.entries)
	o.generation++
	o.emptyUndo()
}

// revert goes back to the last mark. The savepoint stays: what is written from now on can be
// reverted again. Without a mark it does nothing.
func (o *overlay) revert() {
	if !o.logged {
		return
	}
	o.undoTo(overlayPoint{entries: o.marked})
	o.emptyUndo()
}

// overlayPoint is a savepoint inside that of the last mark: how long the two lists were.
type overlayPoint struct{ entries, undo int }

// savepoint begins a savepoint inside that of the last mark. From here on every write is logged
// once more.
func (o *overlay) savepoint() overlayPoint {
	o.generation++
	return overlayPoint{entries: len(o.entries), undo: len(o.undo)}
}

// undoTo goes back to p.
func (o *overlay) undoTo(p overlayPoint) {
	for i := len(o.entries) - 1; i >= p.entries; i-- {
		o.values -= len(o.entries[i].value)
		o.unplace(o.entries[i].hash, uint32(i+1))
	}
	o.dropOrder(p.entries)
	if o.groups != nil {
		o.groups.drop(o.entries, p.entries)
	}
	clear(o.entries[p.entries:])
	o.entries = o.entries[:p.entries]
	for i := len(o.undo) - 1; i >= p.undo; i-- {
		u := &o.undo[i]
		if int(u.entry) >= p.entries {
			continue // it was new since p, and logged for a savepoint behind p
		}
		// An entry is logged once for each savepoint, so that the oldest value comes last.
		e := &o.entries[u.entry]
		o.values += len(u.value) - len(e.value)
		e.value, e.generation = u.value, u.generation
	}
	clear(o.undo[p.undo:])
	o.undo = o.undo[:p.undo]
}

// unplace clears the slot of the last entry.
func (o *overlay) unplace(hash, ref uint32) {
	mask := uint32(len(o.slots) - 1)
	i := hash & mask
	for o.slots[i].ref != ref {
		i = (i + 1) & mask
	}
	o.slots[i] = slot{}
	if invariants {
		o.checkCleared(i)
	}
}

// emptyUndo empties the log and lets go of the values in it. A log that one large record blew up
// is dropped, so that it does not stay for the rest of the round.
func (o *overlay) emptyUndo() {
	const keep = 1024
	if cap(o.undo) > keep {
		o.undo = nil
		return
	}
	clear(o.undo)
	o.undo = o.undo[:0]
}

// bytes estimates the memory of the overlay. Keys that were reverted still count: their memory
// stays until the overlay goes, since a scan may have handed them out.
func (o *overlay) bytes() int {
	return o.keys.used + o.values + len(o.entries)*entryOverhead
}

// arena hands out copies of keys from larger pieces of memory, which are never reused.
type arena struct {
	free []byte
	next int
	used int
}

// Pieces double from the smallest, so that a round of one record does not pay for one of thousands.
// A key beyond a quarter of the largest piece gets memory of its own instead of wasting the rest of
// a piece.
const (
	arenaPieceMin = 512
	arenaPieceMax = 64 << 10
	arenaKeyMax   = arenaPieceMax / 4
)

// copy returns a copy of key that is never nil and cannot be appended to in place.
func (a *arena) copy(key []byte) []byte {
	a.used += len(key)
	if len(key) > arenaKeyMax {
		return bytes.Clone(key)
	}
	if len(key) > len(a.free) || a.free == nil {
		a.next = max(arenaPieceMin, min(2*a.next, arenaPieceMax))
		for a.next < len(key) {
			a.next *= 2
		}
		a.free = make([]byte, a.next)
	}
	b := a.free[:len(key):len(key)]
	a.free = a.free[len(key):]
	copy(b, key)
	return b
}
