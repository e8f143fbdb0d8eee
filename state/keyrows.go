package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
)

// KeyRange selects rows of one key, in a store whose rows have a suffix of a fixed size behind the
// key (Layout.Suffix).
type KeyRange struct {
	// Key is what is in front of the suffix: the number of the segment and the encoded key.
	Key []byte
	// First and Last are the smallest and the largest suffix of the range. Least and Most are
	// bounds for the suffixes of all rows with this Key, so that these can be read together.
	First, Last, Least, Most []byte
}

// KeyReader is what a Bytes can have for stores whose rows have a suffix: reads of the rows of one
// key without a scan. A scan has to search every level of the database, and that costs more than
// all the rest of a lookup.
type KeyReader interface {
	// KeyRows appends the entries of r to dst, in the order of their keys. If ok is false, the rows
	// of this key have to be read with Scan.
	KeyRows(dst []Entry, r KeyRange) (entries []Entry, ok bool, err error)
}

// KeyDatabase is what a Database can have for a KeyReader.
type KeyDatabase interface {
	// KeyRows is KeyReader.KeyRows for a store of committed state. While a batch is applied, the
	// result may have some of its writes and lack others. A Task has all of them in a layer.
	KeyRows(dst []Entry, store StoreID, r KeyRange) (entries []Entry, ok bool, err error)
}

// Range returns the range of the database's order with all rows of r. It can also have rows of
// longer keys; see Contains.
func (r KeyRange) Range() Range { return between(r.Key, r.First, r.Last) }

// All returns r with every row of its key.
func (r KeyRange) All() KeyRange {
	r.First, r.Last = r.Least, r.Most
	return r
}

// Contains reports whether a row is in r.
func (r KeyRange) Contains(row []byte) bool {
	if len(row) != len(r.Key)+len(r.First) || !bytes.HasPrefix(row, r.Key) {
		return false
	}
	suffix := row[len(r.Key):]
	return bytes.Compare(suffix, r.First) >= 0 && bytes.Compare(suffix, r.Last) <= 0
}

// Suffix returns the size of what rows have behind the encoded key. It is 0 for kinds whose rows of
// one key are not read together.
func (l Layout) Suffix() int {
	switch l.Kind {
	case SessionKind:
		return sessionSuffix
	case SeriesKind:
		return seriesSuffix
	default:
		return 0
	}
}

// KeyRows implements KeyReader.
func (s *taskStore) KeyRows(dst []Entry, r KeyRange) ([]Entry, bool, error) {
	t := s.task
	if t.keys == nil {
		return dst, false, nil
	}
	// The layers are collected before the database is asked, as in Scan.
	found := t.pendingOf(s.index, r)
	defer clear(found) // or the layers would stay in memory
	n := len(dst)
	dst, ok, err := t.keys.KeyRows(dst, s.id, r)
	if err != nil {
		return dst[:n], false, fmt.Errorf("state: read the rows of a key of %s: %w", s.name, err)
	}
	if !ok {
		return dst[:n], false, nil
	}
	for _, p := range found {
		at, committed := slices.BinarySearchFunc(dst[n:], p.key, func(e Entry, key []byte) int { return bytes.Compare(e.Key, key) })
		at += n
		switch {
		case p.value == nil && committed:
			dst = slices.Delete(dst, at, at+1)
		case p.value == nil:
		case committed:
			dst[at].Value = p.value
		default:
			dst = slices.Insert(dst, at, Entry{Key: p.key, Value: p.value})
		}
	}
	return dst, true, nil
}

// pendingOf returns the newest write of each row of r over all layers, in ascending order. It is
// valid until the next call.
func (t *Task) pendingOf(store uint32, r KeyRange) []scanEntry {
	hash := groupHash(t.seed, store, r.Key)
	found, ok := t.open.appendKey(t.found[:0], t, hash, store, r, 0)
	if !ok {
		found = t.open.appendRange(found, store, r.Range())
	}
	for i := len(t.frozen) - 1; i >= 0; i-- {
		age := len(t.frozen) - i
		if found, ok = t.frozen[i].overlay.appendKey(found, t, hash, store, r, age); !ok {
			found = t.frozen[i].appendRange(found, store, r.Range(), age)
		}
	}
	if t.found = found[:0]; cap(found) > keyRowsMax {
		t.found = nil
	}
	found = slices.DeleteFunc(found, func(e scanEntry) bool { return !r.Contains(e.key) })
	slices.SortFunc(found, func(a, b scanEntry) int { return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(a.age, b.age)) })
	return slices.CompactFunc(found, func(a, b scanEntry) bool { return bytes.Equal(a.key, b.key) })
}

// groupMax is how many writes to one key in one round are searched one by one. The order of the
// whole store is the better way for more.
const groupMax = 32

// groups finds the writes to one key in an overlay whose rows have a suffix. It exists only where
// rows of a key are read, from the first read on, and each read adds the entries since the last
// one. It belongs to the owner of the task, also in a frozen layer.
type groups struct {
	// task has the sizes of suffixes, and the seed of hashes.
	task *Task
	// newest has the number, plus one, of the newest entry by the hash of its key without suffix.
	// Keys with the same hash share a list.
	newest map[uint64]uint32
	// older has the number, plus one, of the next older entry of the list, for each entry.
	older []uint32
}

// groupHash returns the hash of a key without suffix.
func groupHash(seed maphash.Seed, store uint32, key []byte) uint64 {
	return maphash.Bytes(seed, key) ^ uint64(store)*0x9e3779b97f4a7c15
}

// appendKey appends the writes to the key of r, in no order. ok is false, and nothing is appended,
// if they are too many.
func (o *overlay) appendKey(dst []scanEntry, t *Task, hash uint64, store uint32, r KeyRange, age int) ([]scanEntry, bool) {
	if len(o.entries) == 0 {
		return dst, true
	}
	if o.groups == nil {
		o.groups = &groups{task: t, newest: make(map[uint64]uint32, len(o.entries)), older: make([]uint32, 0, len(o.entries))}
	}
	o.groups.add(o.entries)
	n, steps := len(dst), 0
	for at := o.groups.newest[hash]; at != 0; at = o.groups.older[at-1] {
		if steps++; steps > groupMax {
			return dst[:n], false
		}
		if e := &o.entries[at-1]; e.store == store && r.Contains(e.key) {
			dst = append(dst, scanEntry{key: e.key, value: e.value, age: age})
		}
	}
	return dst, true
}

// add puts the entries since the last call into their lists.
func (g *groups) add(entries []overlayEntry) {
	for i := len(g.older); i < len(entries); i++ {
		older := uint32(0)
		if hash, grouped := g.hash(&entries[i]); grouped {
			older = g.newest[hash]
			g.newest[hash] = uint32(i + 1)
		}
		g.older = append(g.older, older)
	}
}

// drop takes the entries from number first on, which a revert removes, out of their lists.
func (g *groups) drop(entries []overlayEntry, first int) {
	for i := len(g.older) - 1; i >= first; i-- {
		hash, grouped := g.hash(&entries[i])
		switch {
		case !grouped:
		case g.older[i] == 0:
			delete(g.newest, hash)
		default:
			g.newest[hash] = g.older[i]
		}
	}
	g.older = g.older[:min(len(g.older), first)]
}

// hash returns the hash of the key of an entry, if rows of its store have a suffix.
func (g *groups) hash(e *overlayEntry) (hash uint64, grouped bool) {
	n := g.task.layouts[e.store].Suffix()
	if n == 0 || len(e.key) < n {
		return 0, false
	}
	return groupHash(g.task.seed, e.store, e.key[:len(e.key)-n]), true
}

// scanKey yields the rows of one key with suffixes from first to last, without their segment
// numbers, in the order of their keys. The times in front of these suffixes are in from..to, which
// must all be readable.
func (s timeRows[K, V]) scanKey(key K, first, last []byte, reverse bool, from, to int64, yield func(Entry, error) bool) {
	rows, ok, err := s.rowsOfKey(key, first, last, from, to)
	if err != nil {
		yield(Entry{}, err)
		return
	}
	if !ok {
		s.scanKeyRange(slices.Clone(s.buffers.key[segmentSize:]), slices.Clone(first), slices.Clone(last), reverse, from, to, yield)
		return
	}
	defer s.giveBack(rows)
	if reverse {
		slices.Reverse(rows)
	}
	for _, e := range rows {
		if !yield(e, nil) {
			return
		}
	}
}

// rowsOfKey returns the rows of scanKey in memory that the caller gives back, if the store is a
// KeyReader and can read these. If ok is false, the encoded key is behind room for a segment number
// in the buffer for keys. Times are in front in suffixes, so the rows of an older segment come
// first.
func (s timeRows[K, V]) rowsOfKey(key K, first, last []byte, from, to int64) (rows []Entry, ok bool, err error) {
	encoded, err := s.codecs.keys.Append(append(s.buffers.key[:0], make([]byte, segmentSize)...), key)
	if err != nil {
		return nil, false, errEncodeKey(err)
	}
	s.buffers.key = encoded
	reader, ok := s.bytes.(KeyReader)
	if !ok {
		return nil, false, nil
	}
	rows, s.buffers.rows = s.buffers.rows, nil
	ends := &s.buffers.ends
	r := KeyRange{Key: encoded, First: append(ends[0][:0], first...), Last: append(ends[1][:0], last...)}
	newest := s.layout.segmentOf(to)
	for segment := s.layout.segmentOf(from); ; segment++ {
		binary.BigEndian.PutUint32(encoded, segment)
		begin, end := s.layout.segmentTimes(segment)
		r.Least, r.Most = suffixAt(ends[2][:0], begin, len(first), 0), suffixAt(ends[3][:0], end, len(first), 0xff)
		if rows, ok, err = reader.KeyRows(rows, r); err != nil || !ok {
			s.giveBack(rows)
			return nil, false, err
		}
		if segment == newest {
			break
		}
	}
	for i := range rows {
		rows[i].Key = rows[i].Key[segmentSize:]
	}
	return rows, true, nil
}

// giveBack keeps the memory of rows for the next scan of a key.
func (s timeRows[K, V]) giveBack(rows []Entry) {
	clear(rows) // or what they are of would stay in memory
	if cap(rows) <= keyRowsMax {
		s.buffers.rows = rows[:0]
	}
}

// keyRowsMax is for how many rows the memory is kept.
const keyRowsMax = 64

// suffixMax is the size of the largest suffix.
const suffixMax = sessionSuffix

// suffixAt appends a suffix of that size that begins with a time and goes on with one byte.
func suffixAt(dst []byte, ms int64, size int, rest byte) []byte {
	dst = appendTime(dst, ms)
	for len(dst) < size {
		dst = append(dst, rest)
	}
	return dst
}

// scanKeyRange is scanKey by scans of the segments.
func (s timeRows[K, V]) scanKeyRange(key, first, last []byte, reverse bool, from, to int64, yield func(Entry, error) bool) {
	within := func(from, to int64) Range {
		least, most := suffixAt(nil, from, len(first), 0), suffixAt(nil, to, len(first), 0xff)
		if bytes.Compare(least, first) < 0 {
			least = first
		}
		if bytes.Compare(most, last) > 0 {
			most = last
		}
		return between(key, least, most)
	}
	s.scanReadable(within, reverse, from, to, func(e Entry, err error) bool {
		// Keys in between begin with the key. An entry belongs to the key if it has nothing more.
		if err == nil && len(e.Key) != len(key)+len(first) {
			return true
		}
		return yield(e, err)
	})
}
