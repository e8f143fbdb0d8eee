package state

import (
	"bytes"
	"hash/maphash"
)

// entryOverhead is what one entry costs beside its key and value: the entry itself and about two
// slots of the table. It makes overlay.bytes an estimate of memory instead of payload.
const entryOverhead = 80

// overlay holds the uncommitted writes of one round: the last write of each key, in the order in
// which the keys were first written. It is an append-only list of entries in the index of the task,
// because a map of strings costs an allocation for each key, and a savepoint wants an order to go
// back in. Entries leave only from the end (revert).
type overlay struct {
	// index finds the entries, and those of the overlays below; ring is the overlay's number there.
	index   *index
	ring    uint32
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
	// below refers to the entry of the same key in an older overlay, as the index had it when this
	// one was made or the index was rebuilt; 0 is none. It means nothing once the overlay is frozen.
	below uint32
}

type undoEntry struct {
	entry      uint32
	generation uint32
	value      []byte
}

// newOverlay returns an empty overlay on top of those in an index, with room for about sizeHint
// entries. It allocates nothing for zero, because most rounds under a light load write little and an
// aborted or idle one nothing.
func newOverlay(x *index, sizeHint int) *overlay {
	o := &overlay{}
	if sizeHint > 0 {
		o.entries = make([]overlayEntry, 0, sizeHint)
	}
	x.begin(o, sizeHint)
	return o
}

// hashKey mixes the store into the hash of the key. The seed is the task's, so that one hash serves
// all its layers.
func hashKey(seed maphash.Seed, store uint32, key []byte) uint32 {
	h := maphash.Bytes(seed, key) ^ uint64(store)*0x9e3779b97f4a7c15
	return uint32(h ^ h>>32)
}

// get returns the last write of key in this overlay and those below: found is false when there is
// none, value is nil when it was a delete.
func (o *overlay) get(hash, store uint32, key []byte) (value []byte, found bool) {
	if _, e := o.index.find(hash, store, key); e != nil {
		return e.value, true
	}
	return nil, false
}

// put records the write of value, nil for a delete. It keeps value and copies key.
func (o *overlay) put(hash, store uint32, key, value []byte) {
	at, e := o.index.find(hash, store, key)
	below := uint32(0)
	switch {
	case e == nil:
		o.index.room()
	case o.index.slots[at].ref>>refBits == o.ring:
		o.overwrite(o.index.slots[at].ref&refMask-1, value)
		return
	default:
		below = o.index.slots[at].ref
	}
	o.entries = append(o.entries, overlayEntry{
		key: o.keys.copy(key), value: value, store: store, hash: hash, generation: o.generation, below: below,
	})
	o.values += len(value)
	if ref := refOf(o.ring, len(o.entries)-1); below != 0 {
		o.index.slots[at].ref = ref
	} else {
		o.index.place(hash, ref)
	}
}

// overwrite replaces the value of an entry.
func (o *overlay) overwrite(entry uint32, value []byte) {
	e := &o.entries[entry]
	if o.logged && e.generation != o.generation {
		o.undo = append(o.undo, undoEntry{entry: entry, generation: e.generation, value: e.value})
		e.generation = o.generation
	}
	o.values += len(value) - len(e.value)
	e.value = value
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
		e := &o.entries[i]
		o.values -= len(e.value)
		o.index.undo(e, refOf(o.ring, i))
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
