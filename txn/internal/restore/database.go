package restore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/state"
)

// openDatabase opens the database and declares the stores.
func (o *opening) openDatabase() error {
	db, err := o.req.Open()
	if err != nil {
		return err
	}
	err = db.Declare(o.req.declarations()...)
	if errors.Is(err, state.ErrLayout) {
		err = o.relay(db)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	o.db = db
	return nil
}

// relay empties the stores whose rows have another layout than the topology declares, each in one step with its position, and declares them
// again. They are restored in full, and their neighbours are not. A kill in between leaves a store without rows and without a position.
func (o *opening) relay(db state.Database) error {
	there, err := db.Stores()
	if err != nil {
		return err
	}
	for _, d := range o.req.declarations() {
		i := slices.IndexFunc(there, func(t state.Declaration) bool { return t.Name == d.Name && t.Layout != d.Layout })
		if i < 0 {
			continue
		}
		o.full = Relaid
		o.log.Warn("a store is restored in full", "store", d.Name, "cause", Relaid,
			"reason", fmt.Sprintf("its rows are %s, and the topology declares %s", there[i].Layout, d.Layout))
		base := db.Positions()
		next := base.Clone()
		next.Changelogs = slices.DeleteFunc(next.Changelogs, func(c state.Changelog) bool { return c.Store == d.Name })
		if err := db.Remove(base, next, state.IDOf(d.Name), state.Range{}); err != nil {
			return fmt.Errorf("emptying store %s: %w", d.Name, err)
		}
	}
	return db.Declare(o.req.declarations()...)
}

// declarations are the stores as a database is told of them.
func (r *Request) declarations() []state.Declaration {
	declared := make([]state.Declaration, 0, len(r.Stores))
	for _, s := range r.Stores {
		declared = append(declared, state.Declaration{Name: s.Name, Layout: s.Layout})
	}
	return declared
}

// replaceDatabase makes a new one.
func (o *opening) replaceDatabase() error {
	if o.db != nil {
		err := o.db.Close()
		if o.db = nil; err != nil {
			return err
		}
	}
	if err := o.req.Remove(); err != nil {
		return err
	}
	return o.openDatabase()
}
