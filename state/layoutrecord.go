package state

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ChangelogRecord is one record of a changelog.
type ChangelogRecord struct {
	Key []byte
	// Value is nil for a tombstone.
	Value []byte
	// Timestamp is in milliseconds since the epoch; NoTime where the layout has none, and the
	// runtime gives it one.
	Timestamp int64
}

// RowTime returns the time by which a row expires. Its write moves the stream time to that time. It
// is the start of a window, the end of a session, the begin of a version, the time of an id or of a
// value of a series. It is 0 for a kind without a retention. The error wraps ErrCorrupt for a row
// that this layout cannot have.
func (l Layout) RowTime(w Write) (int64, error) {
	if !l.Kind.Expires() {
		return 0, nil
	}
	if l.Kind == WindowKind {
		w.Value, w.Delete = nil, true // what is in the value is the time of the value
	}
	r, err := l.Record(w)
	return r.Timestamp, err
}

var errRow = errors.New("a row that this layout cannot have")

// Record returns the changelog record of a row's write. Key and Value are parts of the row's. The
// error wraps ErrCorrupt: no typed view writes such a row.
func (l Layout) Record(w Write) (ChangelogRecord, error) {
	r := ChangelogRecord{Key: w.Key, Value: w.Value, Timestamp: NoTime}
	if w.Delete {
		r.Value = nil
	}
	ok := true
	switch l.Kind {
	case KeyValueKind:
	case TimestampedKind:
		ok = cutTime(&r)
	case WindowKind:
		if ok = len(w.Key) >= segmentSize; ok {
			r.Key = w.Key[segmentSize:]
			if r.Timestamp, ok = windowTime(r.Key); ok {
				ok = l.inSegment(w.Key, r.Timestamp) && cutTime(&r)
			}
		}
	case SessionKind:
		if ok = len(w.Key) >= segmentSize; ok {
			r.Key = w.Key[segmentSize:]
			r.Timestamp, ok = sessionTime(r.Key)
			ok = ok && l.inSegment(w.Key, r.Timestamp)
		}
	case SeriesKind:
		if ok = len(w.Key) >= segmentSize; ok {
			r.Key = w.Key[segmentSize:]
			r.Timestamp, ok = seriesTime(r.Key)
			ok = ok && l.inSegment(w.Key, r.Timestamp)
		}
	case VersionedKind:
		// A version that is gone is no news to the changelog, where compaction takes it out.
		if ok = len(w.Key) >= timeSize && !w.Delete; ok {
			r.Key, r.Timestamp = w.Key[:len(w.Key)-timeSize], versionTime(w.Key)
			r.Value, ok = versionOf(w.Value)
			ok = ok && r.Timestamp >= 0
		}
	case DedupeKind:
		if ok = len(w.Key) >= segmentSize; ok {
			r.Key = w.Key[segmentSize:]
			r.Timestamp = int64(binary.BigEndian.Uint32(w.Key)) * l.segmentInterval()
			ok = cutTime(&r) && l.inSegment(w.Key, r.Timestamp)
		}
	}
	if !ok {
		return ChangelogRecord{}, fmt.Errorf("state: record of a %s row: %w: %w", l.Kind, ErrCorrupt, errRow)
	}
	return r, nil
}

// cutTime takes the time in front of a value into the record, if there is a value.
func cutTime(r *ChangelogRecord) bool {
	if r.Value == nil {
		return true
	}
	if len(r.Value) < timeSize {
		return false
	}
	r.Timestamp, r.Value = timeAt(r.Value), r.Value[timeSize:]
	return true
}

// The first byte of a version's value.
const (
	versionDeleted = 0
	versionValue   = 1
)

// versionOf returns the value in the row of a version, nil for a deleted one; ok is false for a row
// that none has.
func versionOf(row []byte) (value []byte, ok bool) {
	switch {
	case len(row) == 1 && row[0] == versionDeleted:
		return nil, true
	case len(row) > 0 && row[0] == versionValue:
		return row[1:], true
	}
	return nil, false
}

// Row returns the write of the row of a changelog record. The result shares memory with r only
// where row and record are the same bytes. Store is left to the caller. The error wraps ErrCorrupt:
// what is in the changelog was not written by a store of this layout.
func (l Layout) Row(r ChangelogRecord) (Write, error) {
	w := Write{Key: r.Key, Value: r.Value, Delete: r.Value == nil}
	ok := true
	switch l.Kind {
	case KeyValueKind:
	case TimestampedKind:
		w.Value = withTime(r)
	case WindowKind:
		var start int64
		if start, ok = windowTime(r.Key); ok {
			w.Key, ok = l.segmentedKey(start, r.Key)
			w.Value = withTime(r)
		}
	case SessionKind:
		var end int64
		if end, ok = sessionTime(r.Key); ok {
			w.Key, ok = l.segmentedKey(end, r.Key)
		}
	case SeriesKind:
		var ms int64
		if ms, ok = seriesTime(r.Key); ok {
			w.Key, ok = l.segmentedKey(ms, r.Key)
		}
	case VersionedKind:
		w.Key = appendTime(append(make([]byte, 0, len(r.Key)+timeSize), r.Key...), r.Timestamp)
		w.Value, w.Delete = versionRow(r.Value), false
		ok = r.Timestamp >= 0
	case DedupeKind:
		w.Key, ok = l.segmentedKey(r.Timestamp, r.Key)
		w.Value = withTime(r)
	}
	if !ok {
		return Write{}, fmt.Errorf("state: row of a %s record: %w: it has no time, or none that such a store can have",
			l.Kind, ErrCorrupt)
	}
	return w, nil
}

// windowTime returns the start in the key of a window's record. ok is false for a key that no
// window has; one with a sequence number is of a series.
func windowTime(key []byte) (start int64, ok bool) {
	n := len(key) - windowSuffix
	if n < 0 || string(key[n+timeSize:]) != "\x00\x00\x00\x00" {
		return 0, false
	}
	start = timeAt(key[n:])
	return start, start >= 0
}

// sessionTime returns the end in the key of a session's record.
func sessionTime(key []byte) (end int64, ok bool) {
	n := len(key) - sessionSuffix
	if n < 0 {
		return 0, false
	}
	end = timeAt(key[n:])
	start := timeAt(key[n+timeSize:])
	return end, start >= 0 && start <= end
}

// seriesTime returns the time in the key of a record of a series.
func seriesTime(key []byte) (ms int64, ok bool) {
	n := len(key) - seriesSuffix
	if n < 0 {
		return 0, false
	}
	ms = timeAt(key[n:])
	return ms, ms >= 0
}

// withTime returns a record's value with its time in front, nil for a tombstone.
func withTime(r ChangelogRecord) []byte {
	if r.Value == nil {
		return nil
	}
	return append(appendTime(make([]byte, 0, timeSize+len(r.Value)), r.Timestamp), r.Value...)
}

// versionRow returns the value of a version's row; nil is a delete.
func versionRow(value []byte) []byte {
	if value == nil {
		return []byte{versionDeleted}
	}
	return append(append(make([]byte, 0, 1+len(value)), versionValue), value...)
}

// segmentedKey puts the segment of a time in front of key; ok is false for a time before the epoch.
func (l Layout) segmentedKey(ms int64, key []byte) (row []byte, ok bool) {
	if ms < 0 {
		return nil, false
	}
	row = binary.BigEndian.AppendUint32(make([]byte, 0, segmentSize+len(key)), l.segmentOf(ms))
	return append(row, key...), true
}

// inSegment reports whether a row is in the segment of its time.
func (l Layout) inSegment(row []byte, ms int64) bool {
	return ms >= 0 && binary.BigEndian.Uint32(row) == l.segmentOf(ms)
}

// appendTime appends a time that is not negative so that the order of the bytes is that of the
// times.
func appendTime(dst []byte, ms int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(ms)) }

func timeAt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }
