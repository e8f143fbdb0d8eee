package pebblestore

import (
	"bytes"
	"encoding/binary"
)

const (
	// segmentBytes is the size of a segment: what a table of one row takes, and room for three of
	// the largest. With segmentsMax of them places are far from the end of their type.
	segmentBytes = 16 << 10
	segmentsMax  = 1 << 20
	// survivorBytes is how much of a segment may stay when it is reclaimed.
	survivorBytes = segmentBytes / 4 * 3
	// slotsMin is what a table of few rows begins with.
	slotsMin = 64
)

// rowTable is a hash table of rows, by database key, in a bounded amount of memory. Rows lie one
// behind the other in segments, with 8 bytes before each and without pointers, so the garbage
// collector has no work.
//
// When the memory is used up, the segment that was reclaimed longest ago is reclaimed. Its rows
// that were read since then stay at its front, at most three quarters of it. The others are
// evicted, and new rows go behind.
//
// So all of the memory holds different rows; with two generations, both would have the same rows.
// The number of rows that fit decides the cost of a lookup: a hash table, or a search in each
// level.
//
// Segments come from the allocator that Pebble uses for blocks (newSegment), so that evicted blocks
// make room for them. They have to be freed with clear.
//
// The zero value is an empty table without memory. It is not safe for concurrent use.
type rowTable struct {
	// segments have the rows, by number; nil ones are free. used is how much of each is taken.
	segments []segment
	// active is the number of the one that takes rows, hand that of the one that was reclaimed
	// last. live are those that are not nil.
	active, hand, live int
	// slots are open addressed, with linear probing from the place that belongs to the tag.
	slots []rowSlot
	count int
	// reclaimed counts segments that were reclaimed for what came.
	reclaimed int
}

type segment struct {
	data []byte
	used int
}

// rowSlot has the place of a row. at is its place in units of 8 bytes, counted through all
// segments, plus one; it is 0 in an empty slot. tag is half of the hash of its key.
type rowSlot struct{ tag, at uint32 }

// Each row begins with the lengths of its key, of its value and of the room for its value, two
// bytes each, and two bytes of flags.
const (
	rowHeader = 8

	rowAsked   = 1 // it was read since its segment was reclaimed
	rowDeleted = 2 // it is known that there is no such row
)

type row []byte

func (r row) keyLen() int       { return int(binary.LittleEndian.Uint16(r)) }
func (r row) valueLen() int     { return int(binary.LittleEndian.Uint16(r[2:])) }
func (r row) valueCap() int     { return int(binary.LittleEndian.Uint16(r[4:])) }
func (r row) size() int         { return rowHeader + r.keyLen() + r.valueCap() }
func (r row) key() []byte       { return r[rowHeader:][:r.keyLen()] }
func (r row) value() []byte     { return r[rowHeader+r.keyLen():][:r.valueLen()] }
func (r row) is(flag byte) bool { return r[6]&flag != 0 }

// set gives the row another value, for which there is room.
func (r row) set(value []byte, deleted bool) {
	binary.LittleEndian.PutUint16(r[2:], uint16(len(value)))
	copy(r[rowHeader+r.keyLen():], value)
	r[6] &^= rowDeleted
	if deleted {
		r[6] |= rowDeleted
	}
}

// held is the memory that the table holds, used or not.
func (t *rowTable) held() int64 {
	return int64(t.live*segmentBytes) + 8*int64(len(t.slots))
}

func (t *rowTable) row(s rowSlot) row {
	at := int(s.at-1) * 8
	return row(t.segments[at/segmentBytes].data[at%segmentBytes:])
}

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// home is where the search for a tag begins.
func (t *rowTable) home(tag uint32) int { return int(uint64(tag) * uint64(len(t.slots)) >> 32) }

func (t *rowTable) after(at int) int {
	if at++; at < len(t.slots) {
		return at
	}
	return 0
}

// find returns the slot of a key, or -1.
func (t *rowTable) find(hash uint64, key []byte) int {
	if t.count == 0 {
		return -1
	}
	tag := tagOf(hash)
	for at := t.home(tag); t.slots[at].at != 0; at = t.after(at) {
		if s := t.slots[at]; s.tag == tag && string(t.row(s).key()) == string(key) {
			return at
		}
	}
	return -1
}

// get returns the row of a key, or nil, and notes that it was asked for. It is valid until anything
// else is done.
func (t *rowTable) get(hash uint64, key []byte) row {
	at := t.find(hash, key)
	if at < 0 {
		return nil
	}
	r := t.row(t.slots[at])
	r[6] |= rowAsked
	return r
}

// update gives the row of a key another value, if it is here.
func (t *rowTable) update(hash uint64, key, value []byte, deleted bool, limit int64) {
	at := t.find(hash, key)
	if at < 0 {
		return
	}
	r := t.row(t.slots[at])
	if len(value) <= r.valueCap() {
		r.set(value, deleted)
		return
	}
	asked := r.is(rowAsked)
	t.remove(at)
	if len(key)+len(value) <= rowBytesMax {
		r = t.put(hash, key, value, limit)
		if asked {
			r[6] |= rowAsked
		}
	}
}

// put adds a row, of rowBytesMax at most, that is not here. It takes no more memory than the limit,
// or one segment and slots for it.
func (t *rowTable) put(hash uint64, key, value []byte, limit int64) row {
	if t.live == 0 {
		t.slots = make([]rowSlot, slotsMin)
		t.addSegment()
	}
	for t.count >= slotsFor(len(t.slots)) {
		if more := len(t.slots) / 2 * 3; t.live == 1 || t.held()+8*int64(more-len(t.slots)) <= limit {
			t.resize(more)
		} else {
			t.nextSegment(limit)
		}
	}
	// Room for values that grow a little, as counters do, is what makes the next row begin at a
	// multiple of 8.
	size := (rowHeader + len(key) + len(value) + 7) &^ 7
	for t.segments[t.active].used+size > segmentBytes {
		t.nextSegment(limit)
	}
	s := &t.segments[t.active]
	place, r := t.active*segmentBytes+s.used, row(s.data[s.used:])
	s.used += size
	binary.LittleEndian.PutUint16(r, uint16(len(key)))
	binary.LittleEndian.PutUint16(r[4:], uint16(size-rowHeader-len(key)))
	r[6] = 0
	copy(r[rowHeader:], key)
	r.set(value, false)
	t.insert(rowSlot{tag: tagOf(hash), at: uint32(place/8 + 1)})
	t.count++
	return r
}

func (t *rowTable) insert(s rowSlot) {
	at := t.home(s.tag)
	for t.slots[at].at != 0 {
		at = t.after(at)
	}
	t.slots[at] = s
}

// slotsFor is how many rows so many slots are for.
func slotsFor(slots int) int { return slots / 5 * 4 }

func (t *rowTable) resize(slots int) {
	old := t.slots
	t.slots = make([]rowSlot, slots)
	for _, s := range old {
		if s.at != 0 {
			t.insert(s)
		}
	}
}

// remove empties a slot, and closes the gap: whatever lies behind it and belongs to it or before it
// moves up.
func (t *rowTable) remove(at int) {
	t.count--
	for next := t.after(at); t.slots[next].at != 0; next = t.after(next) {
		home := t.home(t.slots[next].tag)
		if at <= next && (home <= at || home > next) || at > next && home <= at && home > next {
			t.slots[at], at = t.slots[next], next
		}
	}
	t.slots[at] = rowSlot{}
}

// slotAt returns the slot that refers to a place, or -1: a row that has outgrown its place lies
// somewhere else.
func (t *rowTable) slotAt(hash uint64, place int) int {
	for at := t.home(tagOf(hash)); t.slots[at].at != 0; at = t.after(at) {
		if t.slots[at].at == uint32(place/8+1) {
			return at
		}
	}
	return -1
}

// nextSegment makes another segment the active one. There may be no room in it for a large row;
// after some more there is.
func (t *rowTable) nextSegment(limit int64) {
	t.shrink(limit)
	if t.held()+segmentBytes <= limit && len(t.segments) < segmentsMax {
		t.addSegment()
		return
	}
	t.oldest()
	t.reclaim(t.hand, survivorBytes)
	t.active = t.hand
	t.reclaimed++
}

// shrink frees a segment with all of its rows if the table exceeds the limit, which may have become
// smaller. It takes one small step, because other goroutines wait meanwhile: tens of microseconds,
// or some milliseconds if there are slots for more than three times the rows.
func (t *rowTable) shrink(limit int64) {
	if t.held() <= limit || t.live <= 1 {
		return
	}
	t.oldest()
	t.reclaim(t.hand, 0)
	t.free(t.hand)
	if n := len(t.slots) / 2; t.count < len(t.slots)/3 && n >= slotsMin {
		t.resize(n)
	}
}

// addSegment makes a new segment the active one.
func (t *rowTable) addSegment() {
	t.active = len(t.segments)
	if t.live < len(t.segments) {
		for t.active = 0; t.segments[t.active].data != nil; t.active++ {
		}
	} else {
		t.segments = append(t.segments, segment{})
	}
	t.segments[t.active] = segment{data: newSegment()}
	t.live++
}

func (t *rowTable) free(number int) {
	freeSegment(t.segments[number].data)
	t.segments[number] = segment{}
	t.live--
}

// clear makes the table empty, and gives its memory back.
func (t *rowTable) clear() {
	for number := range t.segments {
		if t.segments[number].data != nil {
			t.free(number)
		}
	}
	*t = rowTable{}
}

// oldest moves the hand to the next segment.
func (t *rowTable) oldest() {
	for {
		t.hand = (t.hand + 1) % len(t.segments)
		if t.segments[t.hand].data != nil && (t.hand != t.active || t.live == 1) {
			return
		}
	}
}

// reclaim leaves those rows in a segment that were asked for, up to so many bytes.
func (t *rowTable) reclaim(number, most int) {
	s := &t.segments[number]
	kept, first := 0, number*segmentBytes
	for from := 0; from < s.used; {
		r := row(s.data[from:])
		size := r.size()
		switch slot := t.slotAt(hashOf(r.key()), first+from); {
		case slot < 0:
		case r.is(rowAsked) && kept+size <= most:
			r[6] &^= rowAsked
			copy(s.data[kept:], r[:size])
			t.slots[slot].at = uint32((first+kept)/8 + 1)
			kept += size
		default:
			t.remove(slot)
		}
		from += size
	}
	s.used = kept
}

// removeRange removes the rows with database keys from lower on and before upper, and the groups
// that can have such a row. It looks at all rows: some ten nanoseconds for each.
func (t *rowTable) removeRange(lower, upper []byte) {
	// Groups have another first byte. An upper bound of one byte is behind all stores.
	lower, upper = lower[1:], upper[1:]
	for number := range t.segments {
		s := &t.segments[number]
		if s.data == nil {
			continue
		}
		for from := 0; from < s.used; {
			r := row(s.data[from:])
			key := r.key()
			rest := key[1:]
			below := len(upper) == 0 || bytes.Compare(rest, upper) < 0
			above := bytes.Compare(rest, lower) >= 0 || key[0] == groupPrefix && bytes.HasPrefix(lower, rest)
			if below && above {
				if slot := t.slotAt(hashOf(key), number*segmentBytes+from); slot >= 0 {
					t.remove(slot)
				}
			}
			from += r.size()
		}
	}
}
