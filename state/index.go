package state

import (
	"bytes"
	"fmt"
)

// index finds the newest write of a key in the overlays of a task: those of the rounds in flight and
// the open one. It is one hash table with open addressing for all of them, so that a lookup costs one
// search however many rounds are in flight.
//
// A slot refers to the newest entry of its key. The entry of the open overlay knows the older one
// ([overlayEntry.below]), to which the slot returns when the entry is undone. When an overlay is
// over, its slots stay and count as empty for a lookup. A rebuild removes them: when the table is
// half full, and every few rounds.
//
// Invariants:
//   - slots is nil or has a power of two length and is at most half full, stale slots included;
//   - each key has exactly one slot that is not stale, found by linear probing from its hash;
//   - slots are cleared in the opposite order of their making: the last slot of the open overlay
//     took a slot that was empty, and nothing was placed behind it since. Linear probing has no
//     gaps then. This is why no deleted-markers exist. A rebuild keeps it true by inserting entries
//     in the order of their age.
//
// It belongs to the owner of the task. Frozen overlays are read, and never written.
type index struct {
	slots []slot
	// used counts the slots that are not empty.
	used int
	// overlays are the live ones by their ring numbers. open is that of the open overlay; the older
	// ones come before it, around the ring.
	overlays [rings]*overlay
	open     uint32
	// opened counts the overlays that were opened since the last rebuild.
	opened int
}

// slot refers to an entry; zero is empty. The hash saves looking at most entries that are not the
// one.
type slot struct {
	hash uint32
	ref  uint32
}

// A reference is the ring number of an overlay, and the index of an entry plus one.
const (
	ringBits = 3
	rings    = 1 << ringBits
	refBits  = 32 - ringBits
	refMask  = 1<<refBits - 1
	// rebuildEvery is so small that a rebuild comes before a ring number comes again: no stale slot
	// has the number of a live overlay.
	rebuildEvery = rings - frozenMax - 2
)

func refOf(ring uint32, entry int) uint32 { return ring<<refBits | uint32(entry+1) }

// slotsFor returns the smallest power of two that is at most half full with n entries.
func slotsFor(n int) int {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return size
}

// entry returns what a reference refers to, nil for a stale one.
func (x *index) entry(ref uint32) *overlayEntry {
	o := x.overlays[ref>>refBits]
	if o == nil {
		return nil
	}
	return &o.entries[ref&refMask-1]
}

// find returns the slot and the newest entry of key; the entry is nil if there is none.
func (x *index) find(hash, store uint32, key []byte) (at uint32, e *overlayEntry) {
	if len(x.slots) == 0 {
		return 0, nil
	}
	mask := uint32(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := x.slots[i]
		if s.ref == 0 {
			return 0, nil
		}
		if s.hash == hash {
			if e := x.entry(s.ref); e != nil && e.store == store && bytes.Equal(e.key, key) {
				return i, e
			}
		}
	}
}

// begin makes o the open overlay, above those that are there, with room for so many entries.
func (x *index) begin(o *overlay, room int) {
	x.open = (x.open + 1) % rings
	if x.overlays[x.open] != nil {
		panic(fmt.Sprintf("state: there are more than %d rounds in flight", rings-1))
	}
	o.index, o.ring = x, x.open
	x.overlays[x.open] = o
	if x.opened++; x.opened >= rebuildEvery || x.layers() > frozenMax+1 {
		x.rebuild(room)
	}
}

// layers counts the live overlays.
func (x *index) layers() (n int) {
	for _, o := range x.overlays {
		if o != nil {
			n++
		}
	}
	return n
}

// end takes an overlay out: one that is applied, or one that is dropped. After a dropped one the
// index has to be rebuilt, to find the writes below it again: see replace.
func (x *index) end(o *overlay) {
	x.overlays[o.ring] = nil
}

// replace is end for the open overlay, whose number the next one takes. Else the numbers would come
// round to that of a frozen overlay, if many open ones are dropped above it.
func (x *index) replace(open *overlay) {
	x.end(open)
	x.open = (x.open + rings - 1) % rings
}

// reset takes all overlays out.
func (x *index) reset() { *x = index{open: x.open} }

// room makes sure that there is a slot for one more key.
func (x *index) room() {
	if 2*(x.used+1) <= len(x.slots) {
		return
	}
	x.rebuild(max(x.live(), 8))
}

// live counts the entries of all overlays.
func (x *index) live() (n int) {
	for _, o := range x.overlays {
		if o != nil {
			n += len(o.entries)
		}
	}
	return n
}

// rebuild makes the slots again, with room for so many entries beside those that are there.
func (x *index) rebuild(room int) {
	x.opened, x.used = 0, 0
	n := x.live() + room
	if n == 0 {
		x.slots = nil
		return
	}
	if size := slotsFor(n); size == len(x.slots) {
		clear(x.slots)
	} else {
		x.slots = make([]slot, size)
	}
	for age := range uint32(rings) {
		ring := (x.open + 1 + age) % rings
		if o := x.overlays[ring]; o != nil {
			x.insert(o)
		}
	}
}

// insert makes the slots of an overlay refer to it. It is the newest one so far.
func (x *index) insert(o *overlay) {
	for i := range o.entries {
		e := &o.entries[i]
		at, older := x.find(e.hash, e.store, e.key)
		below := uint32(0)
		if older != nil {
			below = x.slots[at].ref
			x.slots[at].ref = refOf(o.ring, i)
		} else {
			x.place(e.hash, refOf(o.ring, i))
		}
		if o.ring == x.open {
			e.below = below // a frozen entry is not undone, and other goroutines read it
		}
	}
}

// place puts ref into the first free slot of hash.
func (x *index) place(hash, ref uint32) {
	mask := uint32(len(x.slots) - 1)
	i := hash & mask
	for x.slots[i].ref != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = slot{hash: hash, ref: ref}
	x.used++
}

// undo makes the slot of the last entry of the open overlay refer to the one below it, or clears the
// slot.
func (x *index) undo(e *overlayEntry, ref uint32) {
	mask := uint32(len(x.slots) - 1)
	i := e.hash & mask
	for x.slots[i].ref != ref {
		i = (i + 1) & mask
	}
	if e.below != 0 {
		x.slots[i].ref = e.below
		return
	}
	x.slots[i] = slot{}
	x.used--
	if invariants {
		x.checkCleared(i)
	}
}
