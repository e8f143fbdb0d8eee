package restore

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/failpoint"
)

// writeError is an error of the database, and not of what was to be written to it: both may be
// called corrupt.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }

// loadPages is the size of chunks from which on it pays to make a sorted table of them. The tail
// that a restart misses is below it, and goes the way of the writes of a round.
const loadPages = 4

// write brings a chunk into the database. Positions move with every chunk; applied stays below the
// target until the plan's own positions are written, so that a restore that was killed is never
// taken for a complete one.
func (x *changelog) write(ctx context.Context, f filled) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	base := x.db.Positions()
	next := base.Clone()
	if next.WrittenAt == 0 {
		next.WrittenAt = time.Now().UnixMilli() // the age of what is here so far; an older one stays until everything is
	}
	at, _ := next.Changelog(x.Store)
	at.Store, at.TopicID, at.Scanned, at.Applied = x.Store, x.TopicID, f.scanned, min(f.last+1, x.Target-1)
	if x.FromSource != nil {
		at.StreamTime = f.digest
	}
	next.SetChangelog(at)
	var err error
	if f.pages >= loadPages {
		err = x.db.Load(base, next, x.id, f.chunk.all(x.id))
	} else {
		err = x.db.Apply(base, next, f.chunk.all(x.id))
	}
	if err != nil {
		return &writeError{err}
	}
	return x.r.Failpoints.Hit(ctx, failpoint.RestoreBatch)
}

// empty removes the stores that are to be restored in full, each in one step with its position. The
// age of the database is that of the oldest gap in it. It starts again with the last step, if no
// other store has a gap. A kill in between leaves no database that is too old and looks young. A
// store in memory has no rows, and no gap that a kill could leave.
func (o *opening) empty(replays []Replay) error {
	left, gap := 0, false
	for _, c := range replays {
		switch {
		case o.emptyInMemory(c):
		case c.Full != "":
			left++
		case c.From < c.Target:
			gap = true
		}
	}
	for _, c := range replays {
		if c.Full == "" || o.emptyInMemory(c) {
			continue
		}
		o.log.Warn("a store is restored in full", "store", c.Store, "cause", c.Full, "reason", c.Reason)
		left--
		base := o.db.Positions()
		next := base.Clone()
		next.SetChangelog(state.Changelog{Store: c.Store, TopicID: c.TopicID})
		if left == 0 && !gap {
			next.WrittenAt = time.Now().UnixMilli()
		}
		if err := o.db.Remove(base, next, state.IDOf(c.Store), state.Range{}); err != nil {
			return fmt.Errorf("emptying store %s: %w", c.Store, &writeError{err})
		}
	}
	return nil
}

// emptyInMemory reports whether a store is in memory and has no rows yet, so that it need not be
// emptied. In a copy that has followed it has rows.
func (o *opening) emptyInMemory(c Replay) bool { return c.InMemory && !o.has(c.Store) }
