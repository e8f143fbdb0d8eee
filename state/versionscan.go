package state

import (
	"bytes"
	"iter"
	"slices"
)

// Scan returns the latest version of each key whose encoded form is in r and that has a value;
// EncodeKey makes the bounds. Keys come in their encoded order, with one exception: of two keys of
// which one is the other with two zero bytes or more behind it, either can be first. It reads every
// version of these keys. Ranging starts the scan, as for Bytes.Scan. An error is the last thing a
// scan yields.
func (s Versioned[K, V]) Scan(r Range) iter.Seq2[VersionedPair[K, V], error] {
	return func(yield func(VersionedPair[K, V], error) bool) {
		now := s.bytes.StreamTime()
		rows := s.bytes.Scan(withSuffixes(r, versionKey(nil, now)))
		latest := latestForward
		if r.Reverse {
			latest = latestBackward
		}
		for e, err := range latest(rows, now) {
			if err == nil && !r.Contains(e.Key[:len(e.Key)-timeSize]) {
				continue
			}
			p, ok, err := s.pair(e, err)
			if err != nil {
				yield(VersionedPair[K, V]{}, err)
				return
			}
			if ok && !yield(p, nil) {
				return
			}
		}
	}
}

func (s Versioned[K, V]) pair(e Entry, err error) (p VersionedPair[K, V], ok bool, _ error) {
	if err != nil {
		return p, false, err
	}
	if p.Value, ok, err = s.value(e); err != nil || !ok {
		return p, false, err
	}
	p.From = versionTime(e.Key)
	p.Key, err = s.codecs.decodeKey(e.Key[:len(e.Key)-timeSize])
	return p, err == nil, err
}

// lineages follows rows of a versioned store in ascending order and tells which of them belong to
// one key. Rows of a key follow each other, except that those of longer keys can be in between,
// which begin with it. So what is open is a chain of keys of which each begins with the one before,
// at most as many as a key has bytes.
type lineages struct {
	// now is as large as every time of a row.
	now [timeSize]byte
	// open has the newest row so far of each key that can have more of them, shortest key first.
	open []Entry
	// done are the newest rows of keys that the last step has left behind.
	done []Entry
}

func newLineages(now int64) *lineages {
	l := &lineages{}
	appendTime(l.now[:0], now)
	return l
}

// step takes the next row. It returns the row that it follows in its key, and sets done.
func (l *lineages) step(e Entry) (before Entry, follows bool) {
	l.done = l.done[:0]
	kept := l.open[:0]
	for _, o := range l.open {
		if l.above(e.Key, o.Key) {
			l.done = append(l.done, o)
		} else {
			kept = append(kept, o)
		}
	}
	l.open = kept
	for i := range l.open {
		// Both begin with the key of the open one, so that equal lengths are equal keys.
		if len(l.open[i].Key) == len(e.Key) {
			before, l.open[i] = l.open[i], e
			return before, true
		}
	}
	at, _ := slices.BinarySearchFunc(l.open, len(e.Key), func(o Entry, n int) int { return len(o.Key) - n })
	l.open = slices.Insert(l.open, at, e)
	return Entry{}, false
}

// above reports whether row is above all rows that the key of open can have.
func (l *lineages) above(row, open []byte) bool {
	key := open[:len(open)-timeSize]
	return !bytes.HasPrefix(row, key) || bytes.Compare(row[len(key):], l.now[:]) > 0
}

// latestForward returns the newest row of each key among ascending rows.
func latestForward(rows iter.Seq2[Entry, error], now int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		l := newLineages(now)
		for e, err := range rows {
			if err == nil && len(e.Key) < timeSize {
				err = errShortRow
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			l.step(e)
			for _, d := range l.done {
				if !yield(d, nil) {
					return
				}
			}
		}
		for _, o := range l.open {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// latestBackward returns the newest row of each key among descending rows, where it is the first of
// its key.
func latestBackward(rows iter.Seq2[Entry, error], _ int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		// seen has a row of each key that can have more of them: those that the row at hand begins
		// with.
		var seen [][]byte
		for e, err := range rows {
			if err == nil && len(e.Key) < timeSize {
				err = errShortRow
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			older := false
			seen = slices.DeleteFunc(seen, func(row []byte) bool {
				if !bytes.HasPrefix(e.Key, row[:len(row)-timeSize]) {
					return true
				}
				older = older || len(row) == len(e.Key)
				return false
			})
			if older {
				continue
			}
			seen = append(seen, e.Key)
			if !yield(e, nil) {
				return
			}
		}
	}
}
