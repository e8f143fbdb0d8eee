package state

import (
	"encoding/binary"
	"iter"
	"slices"
)

// In a dedupe store, rows in several segments share the record key: the id. At most one of them can
// be read. A row moves to another segment only if the id was deleted and came back with another
// time. Then compaction, which sees only the id, may remove the delete before a reader has seen it.
// Two rules make that harmless:
//   - The last record in a round is that of the remaining row (Logged).
//   - A reader that begins with existing rows takes each record as the only row of its id
//     (Displaced).

// Logged returns the writes in the order in which they become changelog records: as they were made
// first, which is how they lie in memory. The same writes made in the same order give the same
// sequence.
//
// Where rows share a record key, compaction keeps the last record, so the order of writes matters.
// The stores with such rows come after all others. For a key of a versioned store, the latest
// version comes last. In a dedupe store deletes come before puts: one id can have rows in several
// segments, and an id that was deleted and came back with an earlier time must keep its new row.
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

// Displaced returns the keys of other rows that the record of a row replaces, among those readable
// at streamTime. For a dedupe store these are the rows of the same id in other segments, for all
// others none. A restore that updates existing rows from a changelog deletes them with each record.
// A restore of an empty database from a changelog that is not compacted meanwhile has none.
// streamTime is that of the target positions. row is a key that Row has made.
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
