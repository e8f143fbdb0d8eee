package state

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
)

// After a round was applied, Task.Expire removes rows from the disk that no read can return any
// more. It only frees space: the stream time makes a row invisible, whether the row is still stored
// or not.
//
// Task.Expire must never remove a row that a layer above still needs. It uses the stream time of
// the applied layer. Every layer above, and the open round, has that time or a later one from its
// first write on. A failed record, a dropped round and a restore go back to that time and not
// behind it. A row that is invisible at a time is invisible at all later times. No write makes a
// row visible again: stores refuse writes with times that have expired, and the successor of a
// version is never deleted, only replaced at the same time.

// sweepMin and sweepMax bound the rows of a versioned store that one Expire reads. A scan of fewer
// rows is not worth its start; the maximum takes some milliseconds.
const (
	sweepMin = 64
	sweepMax = 8192
	// sweepPace is how many rows are read for each applied row. A removable row waits for one pass
	// at most, and during a pass over n rows n/2 more are written. So removable rows never
	// outnumber the others, unless rounds are larger than sweepMax allows.
	sweepPace = 2
	// sweepDebtMax ends what large rounds leave to later ones.
	sweepDebtMax = 64 * sweepMax
)

// expiry is the state of Expire in one store. It belongs to the goroutine that applies.
type expiry struct {
	// first is the oldest segment that was not removed.
	first uint32
	// next is the row with which the next sweep begins, debt how many rows it has to look at.
	next []byte
	debt int
}

// Expire removes rows from the database that no read can return any more. It removes whole segments
// in one step when the stream time of a store has passed them, and superseded versions a few at a
// time. l was applied last, and the database is at the positions at, which do not change. Expire
// takes turns with Apply on the same goroutine.
//
// Reads do not depend on it, so that it may be left out. After an error nothing is lost; as after
// those of Apply the owner closes the task.
func (t *Task) Expire(l *Layer, at Positions) error {
	for i, id := range t.ids {
		s := t.stores[t.names[i]]
		var err error
		switch f := &t.expiry[i]; {
		case s.layout.Segmented():
			err = t.expireSegments(s, f, l.times[i], at)
		case s.layout.Kind == VersionedKind:
			f.debt = min(f.debt+sweepPace*l.count(id), sweepDebtMax)
			if f.debt >= sweepMin {
				err = t.expireVersions(s, f, l.times[i], at)
			}
		}
		if err != nil {
			return fmt.Errorf("state: removing expired rows of %s: %w", s.name, err)
		}
	}
	return nil
}

func (t *Task) expireSegments(s *taskStore, f *expiry, now int64, at Positions) error {
	first := s.layout.firstSegment(now)
	if first <= f.first {
		return nil
	}
	r, _ := s.layout.Expired(now)
	if err := t.db.Remove(at, at, s.id, r); err != nil {
		return err
	}
	f.first = first
	return nil
}

func (t *Task) expireVersions(s *taskStore, f *expiry, now int64, at Positions) error {
	w := newSweep(f.next, s.layout.oldestReadable(now), now)
	seen, ended := 0, true
	for e, err := range t.db.Scan(s.id, Range{From: f.next}) {
		if err != nil {
			return err
		}
		if len(e.Key) < timeSize {
			return errShortRow
		}
		if seen >= min(f.debt, sweepMax) {
			ended = false
			break
		}
		seen++
		w.step(e)
	}
	w.end(ended)
	f.debt = max(f.debt-max(seen, 1), 0)
	if f.next = w.next; f.next == nil {
		f.debt = 0 // a pass has ended: what is to come is paid for by what is to come
	}
	if len(w.over) == 0 {
		return nil
	}
	return t.db.Apply(at, at, func(yield func(Write) bool) {
		for _, key := range w.over {
			if !yield(Write{Store: s.id, Key: key, Delete: true}) {
				return
			}
		}
	})
}

// sweep checks the rows of a versioned store in ascending order. Two kinds of rows are removable:
//   - versions whose successor begins at or before the oldest readable time
//   - the last version of a key, if it is a delete at or before the oldest readable time
//
// The second kind must be removed with or after all versions that it supersedes, or an old value
// would appear again. So the sweep must have seen the key from its first possible row on: then
// everything older is removable and removed in the same step.
type sweep struct {
	*lineages
	from   []byte
	oldest int64
	last   []byte
	// over are the keys of the rows to remove.
	over [][]byte
	// next is where the next sweep begins; nil is the start.
	next []byte
}

func newSweep(from []byte, oldest, now int64) *sweep {
	return &sweep{lineages: newLineages(now), from: from, oldest: oldest}
}

func (w *sweep) step(e Entry) {
	w.last = e.Key
	if before, follows := w.lineages.step(e); follows && versionTime(e.Key) <= w.oldest {
		w.over = append(w.over, before.Key)
	}
	w.finish(w.done)
}

// finish judges the newest rows of keys.
func (w *sweep) finish(newest []Entry) {
	for _, e := range newest {
		deleted := len(e.Value) == 1 && e.Value[0] == versionDeleted
		if deleted && versionTime(e.Key) <= w.oldest && bytes.Compare(w.from, firstVersion(e.Key)) <= 0 {
			w.over = append(w.over, e.Key)
		}
	}
}

// end finishes the sweep; ended says that there are no more rows. Otherwise the next sweep begins
// with the first possible row of the key that this one has not seen to its end. If this one has
// begun there as well, the key has more versions than one sweep reads, and is swept in parts.
func (w *sweep) end(ended bool) {
	if ended {
		w.finish(w.open)
		return
	}
	w.next = append(slices.Clone(w.last), 0)
	for _, from := range []func(row []byte) []byte{firstVersion, slices.Clone[[]byte]} {
		next := w.next
		for _, o := range w.open {
			if at := from(o.Key); bytes.Compare(at, next) < 0 {
				next = at
			}
		}
		if bytes.Compare(next, w.from) > 0 {
			w.next = next
			return
		}
	}
}

// firstVersion is the first row that the key of a row can have.
func firstVersion(row []byte) []byte { return versionKey(row[:len(row)-timeSize], 0) }

// count returns the number of writes to a store.
func (l *Layer) count(store StoreID) int {
	order := l.order()
	at := func(id uint64) int {
		return sort.Search(len(order), func(i int) bool {
			return uint64(l.ids[l.overlay.entries[order[i]].store]) >= id
		})
	}
	return at(uint64(store)+1) - at(uint64(store))
}
