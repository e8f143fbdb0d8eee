package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
)

// segments reads and writes the rows of a store whose rows expire by time. Such a row has a segment
// number in front of the key that the changelog has (Layout). Segments are read side by side and
// their entries merged in the order of the keys, so that callers see one sequence. At most three
// segments have readable rows.
type segments struct {
	bytes  Bytes
	layout Layout
	// row is the buffer of row keys.
	row *[]byte
}

func newSegments(b Bytes, l Layout) segments { return segments{bytes: b, layout: l, row: new([]byte)} }

// timeMax is the last time that a row can have, in the year 2262: the last millisecond whose count
// of nanoseconds fits into 64 bits. The client keeps timestamps of records in that form, so a later
// time would change in the changelog. The shortest segments have a segment number for it. A limit
// is also needed because the stream time never goes back: one wrong time near the end of an int64
// would expire a store for ever.
const timeMax = int64((1<<63 - 1) / 1_000_000)

// checkTime refuses a time that no row can have.
func checkTime(what string, ms int64) error {
	if ms < 0 || ms > timeMax {
		return fmt.Errorf("state: %s: %w: %d ms", what, ErrTime, ms)
	}
	return nil
}

// accept moves the stream time to ms and reports whether a row of that time can still be read.
func (s segments) accept(ms int64) bool {
	s.bytes.Advance(ms)
	return s.live(ms)
}

// live reports whether a row of that time can be read now. It is true for every time that is ahead
// of the stream time.
func (s segments) live(ms int64) bool { return s.layout.Live(ms, s.bytes.StreamTime()) }

// key returns the row's key, valid until the next call.
func (s segments) key(segment uint32, key []byte) []byte {
	*s.row = append(binary.BigEndian.AppendUint32((*s.row)[:0], segment), key...)
	return *s.row
}

// readable returns the part of from..to that can have rows that can be read now; ok is false when
// there is none. Nothing is ahead of the stream time, because every write moves it.
func (s segments) readable(from, to int64) (first, last int64, ok bool) {
	now := s.bytes.StreamTime()
	from, to = max(from, s.layout.oldestReadable(now), 0), min(to, now)
	return from, to, from <= to
}

// bounds returns the segments that can have a readable row with a time in from..to; ok is false if
// there is no such time.
func (s segments) bounds(from, to int64) (first, last uint32, ok bool) {
	from, to, ok = s.readable(from, to)
	if !ok {
		return 0, 0, false
	}
	return s.layout.segmentOf(from), s.layout.segmentOf(to), true
}

// scan returns the rows with keys in r, without their segment numbers, of the segments that can
// have a time in from..to. Rows of equal keys, which only the dedupe store can have, come newest
// first. The caller checks times in keys and values.
func (s segments) scan(r Range, from, to int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if from, to, ok := s.readable(from, to); ok {
			s.scanReadable(func(int64, int64) Range { return r }, r.Reverse, from, to, yield)
		}
	}
}

// scanReadable yields the rows of the segments that have a time in from..to, which must all be
// readable. within returns the keys to read in one segment, given the times in from..to that belong
// to it. A narrow range reads fewer useless rows.
//
// All segments are begun before the first entry is yielded: a scan must not see what is written
// while it runs.
func (s segments) scanReadable(
	within func(from, to int64) Range, reverse bool, from, to int64, yield func(Entry, error) bool,
) {
	scan := func(segment uint32) iter.Seq2[Entry, error] {
		first, last := s.layout.segmentTimes(segment)
		r := within(max(from, first), min(to, last))
		r.Reverse = reverse
		return s.scanSegment(segment, r)
	}
	oldest, newest := s.layout.segmentOf(from), s.layout.segmentOf(to)
	if oldest == newest {
		scan(newest)(yield)
		return
	}
	older := make([]head, 0, segmentsMax-1)
	defer func() {
		for i := range older {
			older[i].stop()
		}
	}()
	for segment := newest - 1; ; segment-- {
		h := head{}
		h.next, h.stop = iter.Pull2(scan(segment))
		h.advance()
		older = append(older, h)
		if segment == oldest {
			break
		}
	}
	mergeSegments(scan(newest), older, reverse, yield)
}

// segmentTimes returns the first and the last time of a segment.
func (l Layout) segmentTimes(segment uint32) (first, last int64) {
	interval := l.segmentInterval()
	if segment == math.MaxUint32 {
		return int64(segment) * interval, math.MaxInt64 // it takes in all that comes later
	}
	return int64(segment) * interval, int64(segment)*interval + interval - 1
}

// scanSegment returns the rows of one segment, without its number.
func (s segments) scanSegment(segment uint32, r Range) iter.Seq2[Entry, error] {
	bounds := make([]byte, 0, 2*segmentSize+len(r.From)+len(r.To))
	bounds = append(binary.BigEndian.AppendUint32(bounds, segment), r.From...)
	from := len(bounds)
	bounds = append(binary.BigEndian.AppendUint32(bounds, segment), r.To...)
	within := Range{From: bounds[:from:from], To: bounds[from:], Reverse: r.Reverse}
	if r.To == nil {
		within.To = Prefix(within.To).To
	}
	return func(yield func(Entry, error) bool) {
		for e, err := range s.bytes.Scan(within) {
			if err == nil {
				e.Key = e.Key[segmentSize:]
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// mergeSegments yields the entries of all segments in the order of their keys, for equal keys the
// newest segment first. The newest segment, usually the largest, is read directly. The older ones,
// newest first, are one entry ahead.
func mergeSegments(newest iter.Seq2[Entry, error], older []head, reverse bool, yield func(Entry, error) bool) {
	next := smallest(older, reverse)
	for e, err := range newest {
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for next != nil && (next.err != nil || compareKeys(next.entry.Key, e.Key, reverse) < 0) {
			if !yield(next.entry, next.err) || next.err != nil {
				return
			}
			next.advance()
			next = smallest(older, reverse)
		}
		if !yield(e, nil) {
			return
		}
	}
	for next != nil {
		if !yield(next.entry, next.err) || next.err != nil {
			return
		}
		next.advance()
		next = smallest(older, reverse)
	}
}

// head is the next entry of one segment.
type head struct {
	next  func() (Entry, error, bool)
	stop  func()
	entry Entry
	err   error
	ok    bool
}

func (h *head) advance() { h.entry, h.err, h.ok = h.next() }

// smallest returns the next head: the first one of equals, and one with an error before all others.
// It returns nil when all are at their end.
func smallest(heads []head, reverse bool) *head {
	var best *head
	for i := range heads {
		switch h := &heads[i]; {
		case !h.ok:
		case h.err != nil:
			return h
		case best == nil || compareKeys(h.entry.Key, best.entry.Key, reverse) < 0:
			best = h
		}
	}
	return best
}

// timeRows are the typed rows of a store whose rows expire by time: the common part of Window,
// Session and Series. Copies share the buffers.
type timeRows[K, V any] struct {
	segments
	codecs[K, V]
}

func newTimeRows[K, V any](b Bytes, l Layout, k Codec[K], v Codec[V]) timeRows[K, V] {
	return timeRows[K, V]{newSegments(b, l), newCodecs(k, v)}
}

// row returns the row key of a time: segment, key and suffix. It is valid until the next call.
func (s timeRows[K, V]) row(ms int64, key K, suffix []byte) ([]byte, error) {
	b, err := s.codecs.keys.Append(binary.BigEndian.AppendUint32(s.buffers.key[:0], s.layout.segmentOf(ms)), key)
	if err != nil {
		return nil, errEncodeKey(err)
	}
	s.buffers.key = append(b, suffix...)
	return s.buffers.key, nil
}

// get returns the value of a row; ok is false when there is none.
func (s timeRows[K, V]) get(row []byte) (value V, ok bool, err error) {
	b, ok, err := s.bytes.Get(row)
	if err != nil || !ok {
		return value, false, err
	}
	if value, err = s.decodeValue(b); err != nil {
		return value, false, err
	}
	return value, true, nil
}

// put writes a row: dst and the value behind it. It moves the stream time to ms. stored is false if
// the value cannot be encoded, and then nothing happens.
func (s timeRows[K, V]) put(row, dst []byte, value V, ms int64) (stored bool, err error) {
	b, err := s.value(dst, value)
	if err != nil {
		return false, err
	}
	s.bytes.Advance(ms)
	return true, s.bytes.Put(row, b)
}

// between returns the range of the keys that are key and a suffix from first to last. A longer key
// can also be in the range if it continues key with bytes that equal, or begin like, such a suffix.
func between(key, first, last []byte) Range {
	b := make([]byte, 0, 2*len(key)+len(first)+len(last)+1)
	b = append(append(b, key...), first...)
	from := len(b)
	b = append(append(append(b, key...), last...), 0)
	return Range{From: b[:from:from], To: b[from:]}
}

// withSuffixes returns the smallest range with every key of r followed by any suffix up to last.
// The reader must skip other keys in it: a shorter key whose suffix makes it look like one of r.
func withSuffixes(r Range, last []byte) Range {
	// A key with a suffix is at or behind the end of r only if the end goes on where the key is
	// over.
	end := r.To
	for n := range r.To {
		if bytes.Compare(last, r.To[n:]) >= 0 {
			behind := append(append(append(make([]byte, 0, n+len(last)+1), r.To[:n]...), last...), 0)
			if bytes.Compare(behind, end) > 0 {
				end = behind
			}
		}
	}
	r.To = end
	return r
}
