package state

import (
	"encoding/binary"
	"iter"
	"sort"
)

// The rows of a dedupe store in all segments share the key of their records, the id. At most one of them can be
// read. It leaves its segment for another one only when the id was deleted and came back with another time. Then
// compaction, which knows the id alone, may take the delete away before a reader has seen it. Two rules make that
// harmless: the record that comes last in a round is that of the row that is left (Logged), and a reader that
// begins with rows takes each record for all that there is of its id (Displaced).

// Logged returns the writes in the order in which they become changelog records. It is that of Writes, except
// that a dedupe store's deletes come before its puts. There, one id can have rows in several segments, which
// share the key of their records: what compaction leaves of an id that was deleted and came back, with an
// earlier time, has to be what it came back with.
func (l *Layer) Logged() iter.Seq[Write] {
	return func(yield func(Write) bool) {
		order := l.order()
		for len(order) > 0 {
			store := l.overlay.entries[order[0]].store
			n := sort.Search(len(order), func(i int) bool { return l.overlay.entries[order[i]].store != store })
			if !l.logStore(order[:n], l.layouts[store].Kind == DedupeKind, yield) {
				return
			}
			order = order[n:]
		}
	}
}

func (l *Layer) logStore(order []uint32, deletesFirst bool, yield func(Write) bool) bool {
	passes := 1
	if deletesFirst {
		passes = 2
	}
	for pass := range passes {
		for _, i := range order {
			e := &l.overlay.entries[i]
			if deletesFirst && (e.value == nil) != (pass == 0) {
				continue
			}
			if !yield(Write{Store: l.ids[e.store], Key: e.key, Value: e.value, Delete: e.value == nil}) {
				return false
			}
		}
	}
	return true
}

// Displaced returns the keys of other rows that the record of a row puts an end to, of those that can be read at
// streamTime: for a dedupe store the rows of the same id in other segments, for all others nothing. Whoever
// brings a database with rows up to date from a changelog deletes them with each record; one that was empty, and
// is filled from a changelog that nobody compacts meanwhile, has none. streamTime is that of the positions to
// reach. Row is the key of a row that Row has made.
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
