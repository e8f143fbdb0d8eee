package state

import (
	"fmt"
	"iter"
)

// Window is a typed view of a window store: one value, with the time of its last change, for each
// key and start of a window. The store does not know the length of windows; its user does. Copies
// share a buffer, so a Window and its copies belong to one goroutine, as do the Bytes below.
//
// All times are milliseconds since the epoch, from 0 to the year 2262. The store has a stream time,
// the largest start that was ever written, and a retention. A window whose start is at or before
// stream time - retention has expired: no method sees it any more, and writing it does nothing.
// Choose the retention as the length of a window and the time that records can be late, at least.
//
// Entries are ordered by the encoded key followed by the start, as one sequence of bytes. So they
// are grouped by key, with ascending starts, as long as no key is another one followed by zero
// bytes. In a store with keys "a" and "a\x00\x00" the entries of the two can be mixed. Reads for
// one key, and the bounds of a Scan, are exact for all keys.
//
// Rows and changelog records are those of a timestamped window store of Kafka Streams without
// duplicates: FORMAT.md, section Rows.
type Window[K, V any] struct{ rows timeRows[K, V] }

// WindowEntry is the value of one window.
type WindowEntry[K, V any] struct {
	Key K
	// Start is that of the window.
	Start int64
	Value V
	// Time is what Put was given with the value, in milliseconds since the epoch.
	Time int64
}

// NewWindow returns the typed view of b, a store with the layout l, which is of WindowKind.
func NewWindow[K, V any](b Bytes, k Codec[K], v Codec[V], l Layout) Window[K, V] {
	return Window[K, V]{newTimeRows(b, l, k, v)}
}

// Put sets the value of the window of key that begins at start, and the time of the value, which
// becomes the timestamp of the changelog record. It moves the stream time of the store to start.
// For an expired window stored is false, and nothing is written. A time out of range, or a time of
// the value before start, is an ErrTime.
func (s Window[K, V]) Put(key K, start int64, value V, ms int64) (stored bool, err error) {
	if err := checkWindow(start, ms); err != nil || !s.rows.live(start) {
		return false, err
	}
	row, err := s.row(key, start)
	if err != nil {
		return false, err
	}
	return true, s.put(row, start, value, ms)
}

// PutIfAbsent is Put for a window that has no value. If it has one, that is returned with present
// true. At most one of present and stored is true, and none for a window that has expired.
func (s Window[K, V]) PutIfAbsent(key K, start int64, value V, ms int64) (
	existing V, present, stored bool, err error,
) {
	if err := checkWindow(start, ms); err != nil || !s.rows.live(start) {
		return existing, false, false, err
	}
	row, err := s.row(key, start)
	if err != nil {
		return existing, false, false, err
	}
	if existing, _, present, err = s.get(row); err != nil || present {
		return existing, present, false, err
	}
	return existing, false, true, s.put(row, start, value, ms)
}

// Get returns the value of a window and its time; ok is false when there is none, or when the
// window has expired.
func (s Window[K, V]) Get(key K, start int64) (value V, ms int64, ok bool, err error) {
	if err := checkTime("get window", start); err != nil || !s.rows.live(start) {
		return value, 0, false, err
	}
	row, err := s.row(key, start)
	if err != nil {
		return value, 0, false, err
	}
	return s.get(row)
}

// Delete removes the value of a window. Like Put it moves the stream time, and does nothing for a
// window that has expired.
func (s Window[K, V]) Delete(key K, start int64) error {
	if err := checkTime("delete window", start); err != nil || !s.rows.live(start) {
		return err
	}
	row, err := s.row(key, start)
	if err != nil {
		return err
	}
	s.rows.bytes.Advance(start)
	return s.rows.bytes.Delete(row)
}

// Fetch returns the windows of key that begin between from and to, both included, the oldest first.
// Any times may be given, math.MinInt64 and math.MaxInt64 for all. Ranging over the sequence starts
// a scan, as for Bytes.Scan, with what has not expired at that moment. An error, also one of a
// codec, is the last thing a scan yields.
func (s Window[K, V]) Fetch(key K, from, to int64) iter.Seq2[WindowEntry[K, V], error] {
	return s.fetch(key, from, to, false)
}

// FetchReverse is Fetch with the newest window first.
func (s Window[K, V]) FetchReverse(key K, from, to int64) iter.Seq2[WindowEntry[K, V], error] {
	return s.fetch(key, from, to, true)
}

// All is Fetch for all keys.
func (s Window[K, V]) All(from, to int64) iter.Seq2[WindowEntry[K, V], error] {
	return s.Scan(Range{}, from, to)
}

// Scan is Fetch for the keys whose encoded forms are in r; EncodeKey makes its bounds. With
// r.Reverse both the keys and the windows of each come last one first. It reads what is in the
// range of the keys in every segment that the times touch. A segment is half of the retention long,
// so a narrow span of time reads more than it is.
func (s Window[K, V]) Scan(r Range, from, to int64) iter.Seq2[WindowEntry[K, V], error] {
	return func(yield func(WindowEntry[K, V], error) bool) {
		from, to, ok := s.rows.readable(from, to)
		if !ok {
			return
		}
		within := func(_, to int64) Range {
			last := windowEnd(to)
			return withSuffixes(r, last[:])
		}
		s.rows.scanReadable(within, r.Reverse, from, to, func(e Entry, err error) bool {
			var w WindowEntry[K, V]
			if err == nil && len(e.Key) < windowSuffix {
				err = errShortRow
			}
			if err == nil {
				key, start := cutWindow(e.Key)
				if start < from || start > to || !r.Contains(key) {
					return true
				}
				if w.Key, err = s.rows.decodeKey(key); err == nil {
					err = s.decode(e, &w)
				}
			}
			return yieldOrEnd(yield, w, err)
		})
	}
}

// EncodeKey returns the encoded form of key in new memory.
func (s Window[K, V]) EncodeKey(key K) ([]byte, error) { return s.rows.encodeKey(key) }

func (s Window[K, V]) fetch(key K, from, to int64, reverse bool) iter.Seq2[WindowEntry[K, V], error] {
	return func(yield func(WindowEntry[K, V], error) bool) {
		from, to, ok := s.rows.readable(from, to)
		if !ok {
			return
		}
		encoded, err := s.rows.encodeKey(key)
		if err != nil {
			yield(WindowEntry[K, V]{}, err)
			return
		}
		within := func(from, to int64) Range {
			first, last := windowEnd(from), windowEnd(to)
			return between(encoded, first[:], last[:])
		}
		s.rows.scanReadable(within, reverse, from, to, func(e Entry, err error) bool {
			w := WindowEntry[K, V]{Key: key}
			if err == nil {
				// Keys in between begin with the key. An entry belongs to the key if it has nothing
				// more.
				if len(e.Key) != len(encoded)+windowSuffix {
					return true
				}
				err = s.decode(e, &w)
			}
			return yieldOrEnd(yield, w, err)
		})
	}
}

// yieldOrEnd yields an entry, or the error that ends the scan, and reports whether to go on.
func yieldOrEnd[E any](yield func(E, error) bool, e E, err error) bool {
	if err != nil {
		var none E
		yield(none, err)
		return false
	}
	return yield(e, nil)
}

// checkWindow refuses the times of a put.
func checkWindow(start, ms int64) error {
	if err := checkTime("put window", start); err != nil {
		return err
	}
	if err := checkTime("put window: time of the value", ms); err != nil {
		return err
	}
	if ms < start { // see Layout.OldestInChangelog
		return fmt.Errorf("state: put window: %w: the time of the value is %d ms, before the window starts at %d ms", ErrTime, ms, start)
	}
	return nil
}

// errShortRow is returned for a row that cannot be taken apart. Neither a view nor a restore writes
// one.
var errShortRow = fmt.Errorf("state: read a row with a time: %w: %w", ErrCorrupt, errRow)

// windowEnd is what follows the key in a row.
func windowEnd(start int64) (suffix [windowSuffix]byte) {
	appendTime(suffix[:0], start)
	return suffix
}

// cutWindow takes a row key, without its segment, apart.
func cutWindow(row []byte) (key []byte, start int64) {
	n := len(row) - windowSuffix
	return row[:n], timeAt(row[n:])
}

func (s Window[K, V]) row(key K, start int64) ([]byte, error) {
	suffix := windowEnd(start)
	return s.rows.row(start, key, suffix[:])
}

func (s Window[K, V]) get(row []byte) (value V, ms int64, ok bool, err error) {
	b, ok, err := s.rows.bytes.Get(row)
	if err != nil || !ok {
		return value, 0, false, err
	}
	w := WindowEntry[K, V]{}
	if err := s.decodeValue(b, &w); err != nil {
		return value, 0, false, err
	}
	return w.Value, w.Time, true, nil
}

func (s Window[K, V]) put(row []byte, start int64, value V, ms int64) error {
	_, err := s.rows.put(row, appendTime(s.rows.buffer(), ms), value, start)
	return err
}

// decode fills in everything but the key.
func (s Window[K, V]) decode(e Entry, w *WindowEntry[K, V]) error {
	_, w.Start = cutWindow(e.Key)
	return s.decodeValue(e.Value, w)
}

func (s Window[K, V]) decodeValue(b []byte, w *WindowEntry[K, V]) (err error) {
	if len(b) < timeSize {
		return errShortRow
	}
	w.Time = timeAt(b)
	w.Value, err = s.rows.decodeValue(b[timeSize:])
	return err
}
