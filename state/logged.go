package state

import (
	"encoding/binary"
	"iter"
	"slices"
)

// The rows of a dedupe store in all segments share the key of their records, the id. At most one of
// them can be read. It leaves its segment for another one only when the id was deleted and came
// back with another time. Then compaction, which knows the id alone, may take the delete away
// before a reader has seen it. Two rules make that harmless: the record that comes last in a round
// is that of the row that is left (Logged), and a reader that begins with rows takes each record
// for all that there is of its id (Displaced).

// Logged returns the writes in the order in which they become changelog records: as they were made
// first, which is how they lie in memory. The same writes made in the same order give the same
// sequence.
//
// Where rows share the key of their records, what compaction leaves of a key has to be what comes
// last, and those stores follow in the order of Writes: of a versioned store's key, that is the
// latest version. A dedupe store's deletes come before its puts: one id can have rows in several
// segments, and what is left of an id that was deleted and came back, with an earlier time, has to
// be what it came back with.
func (l *Layer) Logged() iter.Seq[Write] {
	return func(yield func(Write) bool) {
		var sharing []uint32
		for store := range l.layouts {
			if l.layouts[store].recordsShareKeys() {
				sharing = append(sharing, uint32(store))
			}
		}
		for i := range l.overlay.entries {
			if e := &l.overlay.entries[i]; !slices.Contains(sharing, e.store) && !yield(l.write(e)) {
				return
			}
		}
		for _, store := range sharing {
			if !l.logInOrder(store, yield) {
				return
			}
		}
	}
}

// logInOrder yields the writes of a store whose rows share keys of records.
func (l *Layer) logInOrder(store uint32, yield func(Write) bool) bool {
	deletesFirst, passes := l.layouts[store].Kind == DedupeKind, 1
	if deletesFirst {
		passes = 2
	}
	for pass := range passes {
		for _, i := range l.order() {
			e := &l.overlay.entries[i]
			if e.store != store || deletesFirst && (e.value == nil) != (pass == 0) {
				continue
			}
			if !yield(l.write(e)) {
				return false
			}
		}
	}
	return true
}

// recordsShareKeys reports whether several rows can have one key in the changelog.
func (l Layout) recordsShareKeys() bool { return l.Kind == DedupeKind || l.Kind == VersionedKind }

// Displaced returns the keys of other rows that the record of a row puts an end to, of those that
// can be read at streamTime: for a dedupe store the rows of the same id in other segments, for all
// others nothing. Whoever brings a database with rows up to date from a changelog deletes them with
// each record; one that was empty, and is filled from a changelog that nobody compacts meanwhile,
// has none. streamTime is that of the positions to reach. Row is the key of a row that Row has
// made.
func (l Layout) Displaced(row []byte, streamTime int64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if l.Kind != DedupeKind {
			return
		}
		own, id := binary.BigEndian.Uint32(row), row[segmentSize:]
		for segment, last := l.firstSegment(streamTime), l.segmentOf(max(streamTime, 0)); ; segment++ {
			key := append(binary.BigEndian.AppendUint32(make([]byte, 0, len(row)), segment), id...)
			if segment != own && !yield(key) || segment >= last {
				return
			}
		}
	}
}
