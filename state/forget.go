package state

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
)

// What no read sees any more is taken off the disk by Task.Forget, after a round was applied.
// Nothing depends on it but space: a row that is out of sight is so by the stream time, whether it
// is there or not.
//
// It must never take what a layer above still needs. The stream time that it judges by is that of
// the applied layer. Every layer above it, and the open round, has that time or a later one from
// its first write on: it began with it, and a record that fails, a round that is dropped and a
// restart go back to it and not behind. What is out of sight at a time is out of sight at all later
// ones. And no write brings a row back into sight: those of times before the horizon are refused,
// and the one that a version was superseded by is never deleted, only replaced at the same time.

// sweepMin and sweepMax bound the rows of a versioned store that one Forget looks at: below the one
// a scan is not worth its start, with the other it takes some milliseconds.
const (
	sweepMin = 64
	sweepMax = 8192
	// sweepPace is how many rows are looked at for each row that was applied. A row that is over
	// waits for one pass at most, and in one pass over n rows n/2 more are written: so rows that
	// are over never outnumber the others, unless rounds are larger than sweepMax allows for.
	sweepPace = 2
	// sweepDebtMax ends what large rounds leave to later ones.
	sweepDebtMax = 64 * sweepMax
)

// forgetting is how far the forgetting of one store has come. It belongs to whoever applies.
type forgetting struct {
	// first is the oldest segment that was not removed.
	first uint32
	// next is the row with which the next sweep begins, debt how many rows it has to look at.
	next []byte
	debt int
}

// Forget removes rows from the database that no read sees any more: whole segments when the stream
// time of a store has left them behind, in one step, and superseded versions a few at a time. l was
// applied last, and the database is at the positions at, which stay. It runs where Apply does, in
// turn with it.
//
// Reads do not depend on it, so that it may be left out. After an error nothing is lost; as after
// those of Apply the owner closes the task.
func (t *Task) Forget(l *Layer, at Positions) error {
	for i, id := range t.ids {
		s := t.stores[t.names[i]]
		var err error
		switch f := &t.forgetting[i]; {
		case s.layout.Segmented():
			err = t.forgetSegments(s, f, l.times[i], at)
		case s.layout.Kind == VersionedKind:
			f.debt = min(f.debt+sweepPace*l.count(id), sweepDebtMax)
			if f.debt >= sweepMin {
				err = t.forgetVersions(s, f, l.times[i], at)
			}
		}
		if err != nil {
			return fmt.Errorf("state: forget in %s: %w", s.name, err)
		}
	}
	return nil
}

func (t *Task) forgetSegments(s *taskStore, f *forgetting, now int64, at Positions) error {
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

func (t *Task) forgetVersions(s *taskStore, f *forgetting, now int64, at Positions) error {
	w := newSweep(f.next, s.layout.horizon(now), now)
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

// sweep judges the rows of a versioned store in ascending order. Two kinds of rows are over:
// versions whose successor begins at the horizon or before it, and a deleted version at the horizon
// or before it that is the last of its key. The latter may only go with or after all that it
// supersedes, else an old value would be back: only when the sweep has seen the key from its first
// possible row on, in which case everything older is over and in the same step.
type sweep struct {
	*lineages
	from    []byte
	horizon int64
	last    []byte
	// over are the keys of the rows to remove.
	over [][]byte
	// next is where the next sweep begins; nil is the start.
	next []byte
}

func newSweep(from []byte, horizon, now int64) *sweep {
	return &sweep{lineages: newLineages(now), from: from, horizon: horizon}
}

func (w *sweep) step(e Entry) {
	w.last = e.Key
	if before, follows := w.lineages.step(e); follows && versionTime(e.Key) <= w.horizon {
		w.over = append(w.over, before.Key)
	}
	w.finish(w.done)
}

// finish judges the newest rows of keys.
func (w *sweep) finish(newest []Entry) {
	for _, e := range newest {
		deleted := len(e.Value) == 1 && e.Value[0] == versionDeleted
		if deleted && versionTime(e.Key) <= w.horizon && bytes.Compare(w.from, firstVersion(e.Key)) <= 0 {
			w.over = append(w.over, e.Key)
		}
	}
}

// end finishes the sweep; ended says that there are no more rows. Else the next one begins with the
// first row that a key can have of which this one has not seen the end, unless this one has begun
// there as well: a key with more versions than one sweep looks at is taken in parts.
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
