package pebblestore

import (
	"bytes"
	"encoding/binary"

	"github.com/onceward/onceward/state"
)

// A read of all rows of a key is a scan in Pebble: an iterator over memtables and tables, with a
// search in each. That costs several microseconds, which is more than the rest of a record in a
// join of streams or an aggregation in sessions. So the rows of a key are kept together, as a group
// in type rows, under the key without suffix. And the filter of such a store has keys without
// suffix. FORMAT.md has nothing of groups: they are in memory only.

// groupBytesMax is the size of the largest group that is kept. Groups of hot keys are larger, and
// for them a scan costs little beside reading the rows.
const groupBytesMax = 2 << 10

// The first byte of a group in memory. The rows follow, in the order of their suffixes: suffix,
// length of the value, value.
const (
	groupRows  = 0
	groupLarge = 1 // there are too many rows, which are not kept
)

// groupHits is how much a group that is found counts for the worth of rows. It saves a scan, which
// costs about twice a lookup.
const groupHits = 2

// strangersMax is how many rows of longer keys a read of a group passes before it gives up.
const strangersMax = 16

// KeyRows implements state.KeyDatabase.
func (d *database) KeyRows(dst []state.Entry, store state.StoreID, want state.KeyRange) ([]state.Entry, bool, error) {
	h := d.habits.of(store)
	if int(h.suffix.Load()) != len(want.First) {
		return dst, false, nil
	}
	buffer := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(buffer)
	*buffer = appendDataKey((*buffer)[:0], store, want.Key)
	(*buffer)[0] = groupPrefix
	hash := hashOf(*buffer)
	dst, got, at, err := d.groupInMemory(dst, h, hash, *buffer, want)
	if err != nil || got == groupKnown || got == groupTooLarge {
		return dst, got == groupKnown, err
	}
	if got == groupAbsent {
		if h.writes.Load() {
			d.rows.keepGroup(store, len(want.First), hash, *buffer, []byte{groupRows}, at)
		}
		return dst, true, nil
	}
	if h.wantsFilter() {
		d.startFilling(store, h)
	}
	group, err := d.readGroup(store, want)
	if err != nil {
		return dst, false, err
	}
	h.saw(len(group) > 1)
	d.rows.keepGroup(store, len(want.First), hash, *buffer, group, at)
	if group[0] == groupLarge {
		return dst, false, nil
	}
	return appendGroup(dst, group, want), true, nil
}

// gotGroup is what is known of a group without Pebble.
type gotGroup int

const (
	groupUnknown gotGroup = iota
	groupAbsent
	groupKnown
	groupTooLarge
)

// groupInMemory looks a group up above Pebble. at is for keepGroup, and is read before the filter:
// a key that comes into the filter later comes with a change.
func (d *database) groupInMemory(
	dst []state.Entry, h *habit, hash uint64, key []byte, want state.KeyRange,
) (_ []state.Entry, got gotGroup, at uint64, err error) {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usableLocked("read the rows of a key"); err != nil {
		return dst, groupUnknown, 0, err
	}
	dst, got, at = d.rows.group(dst, hash, key, want)
	switch got {
	case groupKnown:
		h.saw(true) // no filter would have helped
	case groupUnknown:
		if h.knowsAbsent(hash) {
			got = groupAbsent
		}
	case groupAbsent, groupTooLarge:
	}
	return dst, got, at, nil
}

// getInGroup is Get for a store with groups; known is false if only Pebble or the buffer above it
// knows. The caller holds life.
func (d *database) getInGroup(store state.StoreID, h *habit, key []byte, suffix int) (value []byte, found, known bool) {
	buffer := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(buffer)
	*buffer = appendGroupKey((*buffer)[:0], key, suffix)
	hash := hashOf(*buffer)
	value, found, known, at := d.rows.getInGroup(hash, *buffer, key[len(key)-suffix:])
	if known {
		return value, found, true
	}
	if !h.knowsAbsent(hash) {
		return nil, false, false
	}
	// A row that is looked up and is not there is about to be written.
	d.rows.keepGroup(store, suffix, hash, *buffer, []byte{groupRows}, at)
	return nil, false, true
}

// readGroup reads a group from Pebble, in the form in which it is kept.
func (d *database) readGroup(store state.StoreID, want state.KeyRange) (group []byte, err error) {
	all := want.All()
	group, strangers := []byte{groupRows}, 0
	for e, err := range d.Scan(store, all.Range()) {
		if err != nil {
			return nil, err
		}
		if !all.Contains(e.Key) {
			if strangers++; strangers > strangersMax {
				return []byte{groupLarge}, nil
			}
			continue
		}
		group = appendGroupRow(group, e.Key[len(want.Key):], e.Value)
		if len(group) > groupBytesMax {
			return []byte{groupLarge}, nil
		}
	}
	return group, nil
}

func appendGroupRow(group, suffix, value []byte) []byte {
	group = binary.AppendUvarint(append(group, suffix...), uint64(len(value)))
	return append(group, value...)
}

// nextInGroup takes the first row off the rows of a group.
func nextInGroup(rows []byte, suffix int) (key, value, rest []byte) {
	n, size := binary.Uvarint(rows[suffix:])
	at := suffix + size
	return rows[:suffix:suffix], rows[at : at+int(n) : at+int(n)], rows[at+int(n):]
}

// appendGroup appends copies of the rows in want.
func appendGroup(dst []state.Entry, group []byte, want state.KeyRange) []state.Entry {
	suffix, size := len(want.First), 0
	in := func(key []byte) bool {
		return bytes.Compare(key, want.First) >= 0 && bytes.Compare(key, want.Last) <= 0
	}
	for rows := group[1:]; len(rows) > 0; {
		var key, value []byte
		if key, value, rows = nextInGroup(rows, suffix); in(key) {
			size += len(want.Key) + suffix + len(value)
		}
	}
	if size == 0 {
		return dst
	}
	copied := make([]byte, 0, size)
	for rows := group[1:]; len(rows) > 0; {
		var key, value []byte
		if key, value, rows = nextInGroup(rows, suffix); !in(key) {
			continue
		}
		from := len(copied)
		copied = append(append(copied, want.Key...), key...)
		at := len(copied)
		copied = append(copied, value...)
		dst = append(dst, state.Entry{Key: copied[from:at:at], Value: copied[at:len(copied):len(copied)]})
	}
	return dst
}

// changeGroup appends a group with one row changed to dst.
func changeGroup(dst, group, suffix, value []byte, deleted bool) []byte {
	dst = append(dst, groupRows)
	put := !deleted
	for rows := group[1:]; len(rows) > 0; {
		key, old, rest := nextInGroup(rows, len(suffix))
		c := bytes.Compare(key, suffix)
		if c >= 0 && put {
			dst, put = appendGroupRow(dst, suffix, value), false
		}
		if c != 0 {
			dst = appendGroupRow(dst, key, old)
		}
		rows = rest
	}
	if put {
		dst = appendGroupRow(dst, suffix, value)
	}
	return dst
}

// group looks a group up. A change that is being made is no obstacle, unlike in get: the caller has
// it in a layer.
func (r *rows) group(dst []state.Entry, hash uint64, key []byte, want state.KeyRange) (_ []state.Entry, got gotGroup, at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.table.get(hash, key)
	if kept == nil {
		return dst, groupUnknown, r.changes
	}
	defer r.hit(groupHits) // it may free the row
	if kept.value()[0] == groupLarge {
		return dst, groupTooLarge, 0
	}
	return appendGroup(dst, kept.value(), want), groupKnown, 0
}

// getInGroup looks up one row of a group that is kept; known is false if it is not. The value is a
// copy. at is for keepGroup.
func (r *rows) getInGroup(hash uint64, key, suffix []byte) (value []byte, found, known bool, at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changing {
		return nil, false, false, r.changes
	}
	kept := r.table.get(hash, key)
	if kept == nil || kept.value()[0] == groupLarge {
		return nil, false, false, r.changes
	}
	defer r.hit(1) // it may free the row
	for rows := kept.value()[1:]; len(rows) > 0; {
		var at, old []byte
		if at, old, rows = nextInGroup(rows, len(suffix)); bytes.Equal(at, suffix) {
			return append(make([]byte, 0, len(old)), old...), true, true, 0
		}
	}
	return nil, false, true, 0
}

// keepGroup takes in a group that was read after group or getInGroup returned at.
func (r *rows) keepGroup(store state.StoreID, suffix int, hash uint64, key, group []byte, at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changing || r.changes != at || len(key)+len(group) > rowBytesMax || r.table.find(hash, key) >= 0 {
		return
	}
	r.groups[store] = suffix
	r.add(hash, key, group)
}

// updateGroup changes a row of a group that is kept.
func (r *rows) updateGroup(key, value []byte, deleted bool, suffix int, limit int64) {
	if len(key) < dataPrefixSize+suffix {
		return
	}
	r.key = appendGroupKey(r.key[:0], key, suffix)
	hash := hashOf(r.key)
	at := r.table.find(hash, r.key)
	if at < 0 {
		return
	}
	group := r.table.row(r.table.slots[at]).value()
	if group[0] == groupLarge {
		return
	}
	r.changed = changeGroup(r.changed[:0], group, key[len(key)-suffix:], value, deleted)
	if len(r.changed) > groupBytesMax {
		r.changed = append(r.changed[:0], groupLarge)
	}
	r.table.update(hash, r.key, r.changed, false, limit)
}
