package state

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// segments reads and writes the rows of a store that forgets by time: a segment number in front of the key
// that the changelog has (Layout). Segments are read one by one and their entries merged in the order of the
// keys, so that nobody sees where one ends; at most four of them have anything to read.
type segments struct {
	bytes  Bytes
	layout Layout
	// row is the buffer of keys.
	row *[]byte
}

func newSegments(b Bytes, l Layout) segments { return segments{bytes: b, layout: l, row: new([]byte)} }

// accept moves the stream time to ms and reports whether a row of that time can still be read.
func (s segments) accept(ms int64) bool {
	s.bytes.Advance(ms)
	return s.layout.Live(ms, s.bytes.StreamTime())
}

// key returns the row's key, valid until the next call.
func (s segments) key(segment uint32, key []byte) []byte {
	*s.row = append(binary.BigEndian.AppendUint32((*s.row)[:0], segment), key...)
	return *s.row
}

// bounds are the segments that can have a row with a time in from..to that can still be read; ok is false
// when there is no such time.
func (s segments) bounds(from, to int64) (first, last uint32, ok bool) {
	now := s.bytes.StreamTime()
	from, to = max(from, s.layout.horizon(now), 0), min(to, now)
	if from > to {
		return 0, 0, false
	}
	return s.layout.segmentOf(from), s.layout.segmentOf(to), true
}

// scan returns the rows with keys in r, without their segment numbers, of the segments that a time in
// from..to can be in. Rows of equal keys, which only the dedupe store can have, come newest first. What the
// key or the value says about the time is for the caller to look at.
func (s segments) scan(r Range, from, to int64) iter.Seq2[Entry, error] {
	first, last, ok := s.bounds(from, to)
	if !ok {
		return func(func(Entry, error) bool) {}
	}
	if first == last {
		return s.scanSegment(first, r)
	}
	return s.merge(first, last, r)
}

func (s segments) scanSegment(segment uint32, r Range) iter.Seq2[Entry, error] {
	within := Range{From: segmentKey(segment, r.From), Reverse: r.Reverse}
	if within.To = segmentKey(segment, r.To); r.To == nil {
		within.To = Prefix(segmentKey(segment, nil)).To
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

func segmentKey(segment uint32, key []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, segmentSize+len(key)), segment), key...)
}

// merge runs a scan over several segments. Each is read one entry ahead.
func (s segments) merge(first, last uint32, r Range) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var heads []head
		defer func() {
			for i := range heads {
				heads[i].stop()
			}
		}()
		// Newest first, so that the first of equal keys is the newest.
		for segment := last; ; segment-- {
			next, stop := iter.Pull2(s.scanSegment(segment, r))
			h := head{next: next, stop: stop}
			heads = append(heads, h)
			if segment == first {
				break
			}
		}
		for i := range heads {
			heads[i].advance()
		}
		for {
			best := -1
			for i := range heads {
				h := &heads[i]
				if h.ok && (best < 0 || h.err != nil || before(h.entry.Key, heads[best].entry.Key, r.Reverse)) {
					if best = i; h.err != nil {
						break
					}
				}
			}
			if best < 0 {
				return
			}
			h := &heads[best]
			if !yield(h.entry, h.err) || h.err != nil {
				return
			}
			h.advance()
		}
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

func before(a, b []byte, reverse bool) bool {
	if reverse {
		return bytes.Compare(a, b) > 0
	}
	return bytes.Compare(a, b) < 0
}
