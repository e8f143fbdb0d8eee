package state

import (
	"bytes"
	"iter"
)

// Dedupe is a typed view of a store of DedupeKind: ids, each with its time and a value of the user,
// such as a hash of the payload and the outcome. The store remembers an id for the retention: until
// the store's stream time, the largest time ever put, is the retention or more after the time of
// the id. From then on the id is absent, at once and without a scan. Times are in milliseconds
// since the epoch.
//
// Rows are in time segments of half of the retention (Layout), so that expired rows are removed
// together. A lookup is one Get in each readable segment, newest first: at most three. A lookup of
// an absent id needs all of them.
//
// A view and its copies are for one goroutine, like the Bytes below.
type Dedupe[ID, V any] struct {
	segments segments
	codecs   codecs[ID, V]
}

// DedupeEntry is what a Dedupe stores for an id.
type DedupeEntry[V any] struct {
	Value V
	// Time is the one that the id came with, in milliseconds since the epoch.
	Time int64
}

// DedupePair is one typed entry.
type DedupePair[ID, V any] struct {
	ID ID
	DedupeEntry[V]
}

// Presence says whether an id was there.
type Presence uint8

// The outcomes of Dedupe.PutIfAbsent.
const (
	// Absent: the id was not there. It is now.
	Absent Presence = iota + 1
	// Present: the id was there. Nothing was written.
	Present
	// TooLate: the id is absent, and its time is not after stream time - retention. Whether it was
	// ever present is unknown. Nothing was written.
	TooLate
)

var presenceNames = [...]string{"none", "absent", "present", "too late"}

// String returns "absent", "present" or "too late", and "none" for what is no outcome.
func (p Presence) String() string {
	if int(p) >= len(presenceNames) {
		return presenceNames[0]
	}
	return presenceNames[p]
}

// NewDedupe returns the typed view of b, a store with the layout l, which is of DedupeKind.
func NewDedupe[ID, V any](b Bytes, id Codec[ID], v Codec[V], l Layout) Dedupe[ID, V] {
	return Dedupe[ID, V]{segments: newSegments(b, l), codecs: newCodecs(id, v)}
}

// Lookup returns what is remembered of id; ok is false if nothing is.
func (s Dedupe[ID, V]) Lookup(id ID) (r DedupeEntry[V], ok bool, err error) {
	k, err := s.codecs.key(id)
	if err != nil {
		return r, false, err
	}
	row, _, ok, err := s.find(k)
	if err != nil || !ok {
		return r, false, err
	}
	r, err = s.entry(row)
	return r, err == nil, err
}

// PutIfAbsent stores id with value and the time ms, unless the id is present. Then existing is its
// stored value. It first moves the stream time to ms; an id that expires by that is absent. The
// error wraps ErrTime for an invalid time. A time that is too old is no error but TooLate.
func (s Dedupe[ID, V]) PutIfAbsent(id ID, value V, ms int64) (existing DedupeEntry[V], p Presence, err error) {
	if err := checkTime("put", ms); err != nil {
		return existing, 0, err
	}
	k, err := s.codecs.key(id)
	if err != nil {
		return existing, 0, err
	}
	live := s.segments.accept(ms)
	row, _, ok, err := s.find(k)
	switch {
	case err != nil:
		return existing, 0, err
	case ok:
		if existing, err = s.entry(row); err != nil {
			return existing, 0, err
		}
		return existing, Present, nil
	case !live:
		return existing, TooLate, nil
	}
	if err := s.put(s.segments.layout.segmentOf(ms), k, value, ms); err != nil {
		return existing, 0, err
	}
	return existing, Absent, nil
}

// Update replaces the value of id and keeps its time. ok is false, and nothing was written, when id
// is not there.
func (s Dedupe[ID, V]) Update(id ID, value V) (ok bool, err error) {
	k, err := s.codecs.key(id)
	if err != nil {
		return false, err
	}
	row, segment, ok, err := s.find(k)
	if err != nil || !ok {
		return false, err
	}
	if err := s.put(segment, k, value, timeAt(row)); err != nil {
		return false, err
	}
	return true, nil
}

// Delete removes id. ok is false, and nothing was written, if the id is absent.
func (s Dedupe[ID, V]) Delete(id ID) (ok bool, err error) {
	k, err := s.codecs.key(id)
	if err != nil {
		return false, err
	}
	_, segment, ok, err := s.find(k)
	if err != nil || !ok {
		return false, err
	}
	if err := s.segments.bytes.Delete(s.segments.key(segment, k)); err != nil {
		return false, err
	}
	return true, nil
}

// All returns everything that is remembered, in the order of the encoded ids.
func (s Dedupe[ID, V]) All() iter.Seq2[DedupePair[ID, V], error] { return s.Scan(Range{}) }

// Scan returns what is remembered of the ids whose encoded form is in r, in the order of these;
// EncodeID makes the bounds. Ranging starts the scan, as for Bytes.Scan. An error is the last thing
// a scan yields.
func (s Dedupe[ID, V]) Scan(r Range) iter.Seq2[DedupePair[ID, V], error] {
	return func(yield func(DedupePair[ID, V], error) bool) {
		now := s.segments.bytes.StreamTime()
		// Rows of one id come newest first. If that one is over, so are the others.
		var last []byte
		for e, err := range s.segments.scan(r, 0, now) {
			if err == nil {
				if last != nil && bytes.Equal(e.Key, last) {
					continue
				}
				last = e.Key
				if len(e.Value) >= timeSize && !s.segments.layout.Live(timeAt(e.Value), now) {
					continue
				}
			}
			p, err := s.pair(e, err)
			if err != nil {
				yield(DedupePair[ID, V]{}, err)
				return
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

func (s Dedupe[ID, V]) pair(e Entry, err error) (p DedupePair[ID, V], _ error) {
	if err != nil {
		return p, err
	}
	if p.ID, err = s.codecs.decodeKey(e.Key); err == nil {
		p.DedupeEntry, err = s.entry(e.Value)
	}
	return p, err
}

// EncodeID returns the encoded form of id in new memory.
func (s Dedupe[ID, V]) EncodeID(id ID) ([]byte, error) { return s.codecs.encodeKey(id) }

// find returns the row of an id that can be read, and its segment.
func (s Dedupe[ID, V]) find(id []byte) (row []byte, segment uint32, ok bool, err error) {
	now := s.segments.bytes.StreamTime()
	first, last, ok := s.segments.bounds(0, now)
	if !ok {
		return nil, 0, false, nil
	}
	for segment = last; ; segment-- {
		row, ok, err = s.segments.bytes.Get(s.segments.key(segment, id))
		switch {
		case err != nil:
			return nil, 0, false, err
		case ok && len(row) < timeSize:
			return nil, 0, false, errShortRow
		case ok && s.segments.layout.Live(timeAt(row), now):
			return row, segment, true, nil
		case segment == first:
			return nil, 0, false, nil
		}
	}
}

func (s Dedupe[ID, V]) put(segment uint32, id []byte, value V, ms int64) error {
	row, err := timedRow(s.codecs, value, ms)
	if err != nil {
		return err
	}
	return s.segments.bytes.Put(s.segments.key(segment, id), row)
}

func (s Dedupe[ID, V]) entry(row []byte) (r DedupeEntry[V], err error) {
	r.Value, r.Time, err = timedValue(s.codecs, row)
	return r, err
}
