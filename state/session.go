package state

import (
	"fmt"
	"iter"
	"math"
)

// Session is a typed view of a session store: one value for each key and session. A session begins
// with its first record and ends with its last one, and includes both times. Sessions of one key
// may overlap; the user of the store merges them with Find and Delete. Copies share a buffer, so a
// Session and its copies belong to one goroutine, as do the Bytes below.
//
// All times are milliseconds since the epoch, from 0 to the year 2262. The store has a stream time,
// the largest end that was ever written, and a retention. A session whose end is at or before
// stream time - retention has expired: no method sees it any more, and writing it does nothing.
// Choose the retention as the gap that ends a session and the time that records can be late, at
// least.
//
// Entries are ordered by the encoded key followed by end and start, as one sequence of bytes; what
// is said of Window holds for it.
//
// Rows and changelog records are those of a session store of Kafka Streams: FORMAT.md, section
// Rows. A record's timestamp is the end of the session.
type Session[K, V any] struct{ rows timeRows[K, V] }

// SessionEntry is the value of one session.
type SessionEntry[K, V any] struct {
	Key K
	// Start and End are the times of the first and the last record; they may be equal.
	Start, End int64
	Value      V
}

// NewSession returns the typed view of b, a store with the layout l, which is of SessionKind.
func NewSession[K, V any](b Bytes, k Codec[K], v Codec[V], l Layout) Session[K, V] {
	return Session[K, V]{newTimeRows(b, l, k, v)}
}

// Put sets the value of a session. It moves the stream time of the store to end. For a session that
// has expired stored is false, and nothing happens. A time out of range, or an end before the
// start, is an ErrTime.
func (s Session[K, V]) Put(key K, start, end int64, value V) (stored bool, err error) {
	if err := checkSession("put session", start, end); err != nil || !s.rows.live(end) {
		return false, err
	}
	row, err := s.row(key, start, end)
	if err != nil {
		return false, err
	}
	return s.rows.put(row, s.rows.buffer(), value, end)
}

// Get returns the value of a session; ok is false when there is none with exactly these times, or
// when it has expired.
func (s Session[K, V]) Get(key K, start, end int64) (value V, ok bool, err error) {
	if err := checkSession("get session", start, end); err != nil || !s.rows.live(end) {
		return value, false, err
	}
	row, err := s.row(key, start, end)
	if err != nil {
		return value, false, err
	}
	return s.rows.get(row)
}

// Delete removes a session. Like Put it moves the stream time, and does nothing for a session that
// has expired.
func (s Session[K, V]) Delete(key K, start, end int64) error {
	if err := checkSession("delete session", start, end); err != nil || !s.rows.live(end) {
		return err
	}
	row, err := s.row(key, start, end)
	if err != nil {
		return err
	}
	s.rows.bytes.Advance(end)
	return s.rows.bytes.Delete(row)
}

// Find returns the sessions of key that end at earliestEnd or later and start at latestStart or
// earlier, in the order of their ends. A record at time t belongs to the sessions found with t -
// gap and t + gap. Any times may be given. Ranging starts a scan, as for Bytes.Scan, of the
// sessions that have not expired then. It does not see later writes and deletes. An error, also one
// of a codec, is the last element.
func (s Session[K, V]) Find(key K, earliestEnd, latestStart int64) iter.Seq2[SessionEntry[K, V], error] {
	return s.find(key, earliestEnd, latestStart, false)
}

// FindReverse is Find with the latest end first.
func (s Session[K, V]) FindReverse(key K, earliestEnd, latestStart int64) iter.Seq2[SessionEntry[K, V], error] {
	return s.find(key, earliestEnd, latestStart, true)
}

// Fetch returns all sessions of key, as Find does.
func (s Session[K, V]) Fetch(key K) iter.Seq2[SessionEntry[K, V], error] {
	return s.find(key, math.MinInt64, math.MaxInt64, false)
}

// FetchReverse is Fetch with the latest end first.
func (s Session[K, V]) FetchReverse(key K) iter.Seq2[SessionEntry[K, V], error] {
	return s.find(key, math.MinInt64, math.MaxInt64, true)
}

// All returns the sessions of all keys.
func (s Session[K, V]) All() iter.Seq2[SessionEntry[K, V], error] {
	return s.Scan(Range{}, math.MinInt64, math.MaxInt64)
}

// Scan is Find for the keys whose encoded forms are in r; EncodeKey makes its bounds. With
// r.Reverse both the keys and the sessions of each come last one first.
func (s Session[K, V]) Scan(r Range, earliestEnd, latestStart int64) iter.Seq2[SessionEntry[K, V], error] {
	return func(yield func(SessionEntry[K, V], error) bool) {
		from, to, ok := s.rows.readable(earliestEnd, math.MaxInt64)
		if !ok {
			return
		}
		within := func(_, to int64) Range {
			last := sessionEnd(to, to)
			return withSuffixes(r, last[:])
		}
		s.rows.scanReadable(within, r.Reverse, from, to, func(e Entry, err error) bool {
			var w SessionEntry[K, V]
			if err == nil && len(e.Key) < sessionSuffix {
				err = errShortRow
			}
			if err == nil {
				var key []byte
				key, w.Start, w.End = cutSession(e.Key)
				if w.End < from || w.End > to || w.Start > latestStart || !r.Contains(key) {
					return true
				}
				if w.Key, err = s.rows.decodeKey(key); err == nil {
					w.Value, err = s.rows.decodeValue(e.Value)
				}
			}
			return yieldOrEnd(yield, w, err)
		})
	}
}

// EncodeKey returns the encoded form of key in new memory.
func (s Session[K, V]) EncodeKey(key K) ([]byte, error) { return s.rows.encodeKey(key) }

func (s Session[K, V]) find(key K, earliestEnd, latestStart int64, reverse bool) iter.Seq2[SessionEntry[K, V], error] {
	return func(yield func(SessionEntry[K, V], error) bool) {
		from, to, ok := s.rows.readable(earliestEnd, math.MaxInt64)
		if !ok {
			return
		}
		first, last := sessionEnd(0, from), sessionEnd(to, to)
		s.rows.scanKey(key, first[:], last[:], reverse, from, to, func(e Entry, err error) bool {
			w := SessionEntry[K, V]{Key: key}
			if err == nil {
				if _, w.Start, w.End = cutSession(e.Key); w.Start > latestStart {
					return true
				}
				w.Value, err = s.rows.decodeValue(e.Value)
			}
			return yieldOrEnd(yield, w, err)
		})
	}
}

func checkSession(op string, start, end int64) error {
	if err := checkTime(op, start); err != nil {
		return err
	}
	if err := checkTime(op, end); err != nil {
		return err
	}
	if start > end {
		return fmt.Errorf("state: %s: %w: it ends at %d ms, before it starts at %d ms", op, ErrTime, end, start)
	}
	return nil
}

// sessionEnd is what follows the key in a row.
func sessionEnd(start, end int64) (suffix [sessionSuffix]byte) {
	appendTime(appendTime(suffix[:0], end), start)
	return suffix
}

// cutSession takes a row key, without its segment, apart.
func cutSession(row []byte) (key []byte, start, end int64) {
	n := len(row) - sessionSuffix
	return row[:n], timeAt(row[n+timeSize:]), timeAt(row[n:])
}

func (s Session[K, V]) row(key K, start, end int64) ([]byte, error) {
	suffix := sessionEnd(start, end)
	return s.rows.row(end, key, suffix[:])
}
