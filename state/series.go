package state

import (
	"encoding/binary"
	"errors"
	"iter"
	"math"
)

// Series is a typed view of a series store: all values that each key had, by their times. Values of
// one time are numbered in the order in which they were added. No value replaces another one, and
// values are not deleted; they expire. Copies share a buffer, so a Series and its copies belong to
// one goroutine, as do the Bytes below.
//
// All times are milliseconds since the epoch, from 0 to the year 2262. The store has a stream time,
// the largest time that was ever added, and a retention. A value has expired if its time is at or
// before stream time - retention. Then no method returns it any more, and adding it does nothing.
//
// Rows and changelog records are those of a window store of Kafka Streams that retains duplicates,
// as its joins of two streams have: FORMAT.md, section Rows.
type Series[K, V any] struct{ rows timeRows[K, V] }

// SeriesEntry is one value of a key.
type SeriesEntry[V any] struct {
	// Time is that of the value.
	Time int64
	// Sequence tells the values of one key and time apart. The first one has 0.
	Sequence uint32
	Value    V
}

// NewSeries returns the typed view of b, a store with the layout l, which is of SeriesKind.
func NewSeries[K, V any](b Bytes, k Codec[K], v Codec[V], l Layout) Series[K, V] {
	return Series[K, V]{newTimeRows(b, l, k, v)}
}

// errSeriesFull is returned for a value that gets no number.
var errSeriesFull = errors.New("state: add to a series: the key has 4,294,967,296 values of that millisecond")

// Add adds a value of key, and returns its number among the values of that time. It moves the
// stream time of the store to ms. For a time that has expired stored is false, and nothing happens.
// A time out of range is an ErrTime.
func (s Series[K, V]) Add(key K, ms int64, value V) (sequence uint32, stored bool, err error) {
	if err := checkTime("add to a series", ms); err != nil || !s.rows.live(ms) {
		return 0, false, err
	}
	row, err := s.row(key, ms, 0)
	if err != nil {
		return 0, false, err
	}
	if sequence, err = s.next(row); err != nil {
		return 0, false, err
	}
	binary.BigEndian.PutUint32(row[len(row)-sequenceSize:], sequence)
	stored, err = s.rows.put(row, s.rows.buffer(), value, ms)
	if !stored {
		return 0, false, err
	}
	return sequence, true, err
}

// next returns the number of the next value of a key and time, of which row is the first one. As a
// rule there is none yet, and a lookup is all that it takes.
func (s Series[K, V]) next(row []byte) (uint32, error) {
	if _, ok, err := s.rows.bytes.Get(row); err != nil || !ok {
		return 0, err
	}
	head := row[:len(row)-sequenceSize]
	last := seriesEnd(0, math.MaxUint32)
	r := between(head, row[len(head):], last[timeSize:])
	r.Reverse = true
	for e, err := range s.rows.bytes.Scan(r) {
		switch {
		case err != nil:
			return 0, err
		case len(e.Key) != len(row): // the row of a longer key
			continue
		}
		number := binary.BigEndian.Uint32(e.Key[len(head):])
		if number == math.MaxUint32 {
			return 0, errSeriesFull
		}
		return number + 1, nil
	}
	return 1, nil
}

// Get returns the value of that number; ok is false when there is none, or when it has expired.
func (s Series[K, V]) Get(key K, ms int64, sequence uint32) (value V, ok bool, err error) {
	if err := checkTime("get from a series", ms); err != nil || !s.rows.live(ms) {
		return value, false, err
	}
	row, err := s.row(key, ms, sequence)
	if err != nil {
		return value, false, err
	}
	return s.rows.get(row)
}

// Fetch returns the values of key with times between from and to, both included, in the order of
// their times and numbers. Any times may be given, math.MinInt64 and math.MaxInt64 for all. Ranging
// over the sequence starts a scan, as for Bytes.Scan, of the values that have not expired then. An
// error, also one of a codec, is the last element.
func (s Series[K, V]) Fetch(key K, from, to int64) iter.Seq2[SeriesEntry[V], error] {
	return func(yield func(SeriesEntry[V], error) bool) {
		from, to, ok := s.rows.readable(from, to)
		if !ok {
			return
		}
		first, last := seriesEnd(from, 0), seriesEnd(to, math.MaxUint32)
		s.rows.scanKey(key, first[:], last[:], false, from, to, func(e Entry, err error) bool {
			var v SeriesEntry[V]
			if err == nil {
				v, err = s.entry(e)
			}
			return yieldOrEnd(yield, v, err)
		})
	}
}

// FetchFew appends the values of Fetch to dst if the store can read them without a scan, as it can
// for a key with few values. Otherwise few is false, and the caller ranges over Fetch, which holds
// one value at a time. It allocates nothing if dst has room and the codec allocates nothing.
func (s Series[K, V]) FetchFew(dst []SeriesEntry[V], key K, from, to int64) (values []SeriesEntry[V], few bool, err error) {
	from, to, ok := s.rows.readable(from, to)
	if !ok {
		return dst, true, nil
	}
	first, last := seriesEnd(from, 0), seriesEnd(to, math.MaxUint32)
	rows, ok, err := s.rows.rowsOfKey(key, first[:], last[:], from, to)
	if err != nil || !ok {
		return dst, false, err
	}
	defer s.rows.giveBack(rows)
	n := len(dst)
	for _, row := range rows {
		e, err := s.entry(row)
		if err != nil {
			return dst[:n], false, err
		}
		dst = append(dst, e)
	}
	return dst, true, nil
}

func (s Series[K, V]) entry(row Entry) (e SeriesEntry[V], err error) {
	_, e.Time, e.Sequence = cutSeries(row.Key)
	e.Value, err = s.rows.decodeValue(row.Value)
	return e, err
}

// seriesEnd is what follows the key in a row.
func seriesEnd(ms int64, sequence uint32) (suffix [seriesSuffix]byte) {
	binary.BigEndian.AppendUint32(appendTime(suffix[:0], ms), sequence)
	return suffix
}

// cutSeries takes a row key, without its segment, apart.
func cutSeries(row []byte) (key []byte, ms int64, sequence uint32) {
	n := len(row) - seriesSuffix
	return row[:n], timeAt(row[n:]), binary.BigEndian.Uint32(row[n+timeSize:])
}

func (s Series[K, V]) row(key K, ms int64, sequence uint32) ([]byte, error) {
	suffix := seriesEnd(ms, sequence)
	return s.rows.row(ms, key, suffix[:])
}
