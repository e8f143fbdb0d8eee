package restore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/state"
)

// openDatabase opens the database and declares the stores, whose changelogs are as they were found.
func (o *opening) openDatabase(changelogs []Changelog) error {
	db, err := o.req.Open()
	if err != nil {
		return err
	}
	err = db.Declare(o.req.declarations()...)
	if errors.Is(err, state.ErrLayout) {
		err = o.relay(db, changelogs)
	}
	if err == nil {
		err = o.forsake(db)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	o.db = db
	return nil
}

// ErrKind says that a store is declared as one of another kind than it was: its changelog would be
// misread.
var ErrKind = errors.New("its changelog has records of another kind of store")

// relay empties the stores whose rows have another layout than the topology declares, each in one
// step with its position, and declares them again. They are restored in full, and their neighbours
// are not. A kill in between leaves a store without rows and without a position. A store of another
// kind, whose changelog does not hold the records of this one, is refused before any is touched;
// see misread.
func (o *opening) relay(db state.Database, changelogs []Changelog) error {
	there, err := db.Stores()
	if err != nil {
		return err
	}
	was := func(d state.Declaration) (state.Layout, bool) {
		i := slices.IndexFunc(there, func(t state.Declaration) bool { return t.Name == d.Name && t.Layout != d.Layout })
		if i < 0 {
			return state.Layout{}, false
		}
		return there[i].Layout, true
	}
	for _, d := range o.req.declarations() {
		if before, other := was(d); other && !d.Layout.Reads(before) && misread(db.Positions(), changelogs, d.Name) {
			return &StopError{Task: o.req.Task, Cause: ErrKind, Reason: fmt.Sprintf("store %s is declared as %s, and was %s", d.Name, d.Layout, before),
				Recovery: o.req.recoveryActions("give the store another name", "run the topology before")}
		}
	}
	for _, d := range o.req.declarations() {
		before, other := was(d)
		if !other {
			continue
		}
		o.full = Relaid
		o.log.Warn("a store is restored in full", "store", d.Name, "cause", Relaid,
			"reason", fmt.Sprintf("its rows are %s, and the topology declares %s", before, d.Layout))
		base := db.Positions()
		next := base.Clone()
		next.Changelogs = slices.DeleteFunc(next.Changelogs, func(c state.Changelog) bool { return c.Store == d.Name })
		if err := db.Remove(base, next, state.IDOf(d.Name), state.Range{}); err != nil {
			return fmt.Errorf("emptying store %s: %w", d.Name, err)
		}
	}
	return db.Declare(o.req.declarations()...)
}

// forsake empties the stores of which the database has rows and no position. No topology that has
// run here since had these stores, so the rows cannot be attributed to a changelog: it may have
// been deleted or emptied. The records that the changelog has are restored in any case.
func (o *opening) forsake(db state.Database) error {
	base := db.Positions()
	for _, d := range o.req.declarations() {
		if _, known := base.Changelog(d.Name); known {
			continue
		}
		for _, err := range db.Scan(state.IDOf(d.Name), state.Range{}) {
			if err == nil {
				o.log.Warn("a store is emptied: its rows are of a topology from before the last one", "store", d.Name)
				err = db.Remove(base, base, state.IDOf(d.Name), state.Range{})
			}
			if err != nil {
				return fmt.Errorf("emptying store %s: %w", d.Name, err)
			}
			break
		}
	}
	return nil
}

// misread reports whether a store would be restored from records of another kind. The rows of the
// store are of another kind, and the database has read the changelog that the store would be
// restored from.
//
// The database says nothing about the present content of the changelog in two cases. It was written
// from another topic of the same name, or it has no position of the store, because no topology that
// has run here since had the store. Such a store is emptied, as in an empty directory. The note of
// a store in memory counts as a position: its rows are those that the changelog brings back.
func misread(at state.Positions, changelogs []Changelog, store string) bool {
	have, ok := at.Changelog(store)
	if !ok {
		have, _ = at.InMemory(store)
	}
	return have.Scanned > 0 && slices.ContainsFunc(changelogs, func(c Changelog) bool {
		return c.Store == store && c.FromSource == nil && c.TopicID == have.TopicID
	})
}

// declarations are the stores as a database is told of them.
func (r *Request) declarations() []state.Declaration {
	declared := make([]state.Declaration, 0, len(r.Stores)+len(r.Lost))
	for _, s := range r.Stores {
		declared = append(declared, state.Declaration{Name: s.Name, Layout: s.Layout})
	}
	return append(declared, r.Lost...)
}

// replaceDatabase makes a new one.
func (o *opening) replaceDatabase(changelogs []Changelog) error {
	if o.db != nil {
		err := o.db.Close()
		if o.db = nil; err != nil {
			return err
		}
	}
	if err := o.req.Remove(); err != nil {
		return err
	}
	return o.openDatabase(changelogs)
}
