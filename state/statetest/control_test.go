package statetest_test

import (
	"iter"
	"slices"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/state/statetest"
)

// broken is a database with one mechanism taken out. Check must find each of them, else it proves
// nothing.
type broken struct {
	state.Database
	apply func(db state.Database, base, next state.Positions, w writes) error
	get   func(db state.Database, store state.StoreID, key []byte) ([]byte, bool, error)
	scan  func(db state.Database, store state.StoreID, r state.Range) entries
	view  func(db state.Database) (state.View, error)
}

func (b *broken) Apply(base, next state.Positions, w writes) error {
	if b.apply != nil {
		return b.apply(b.Database, base, next, w)
	}
	return b.Database.Apply(base, next, w)
}

func (b *broken) Get(store state.StoreID, key []byte) ([]byte, bool, error) {
	if b.get != nil {
		return b.get(b.Database, store, key)
	}
	return b.Database.Get(store, key)
}

func (b *broken) Scan(store state.StoreID, r state.Range) entries {
	if b.scan != nil {
		return b.scan(b.Database, store, r)
	}
	return b.Database.Scan(store, r)
}

func (b *broken) View() (state.View, error) {
	if b.view != nil {
		return b.view(b.Database)
	}
	return b.Database.View()
}

type (
	writes  = iter.Seq[state.Write]
	entries = iter.Seq2[state.Entry, error]
)

// live is a view that is none.
type live struct{ state.Database }

func (live) Close() error { return nil }

var controls = map[string]func() *broken{
	"positions are not in the batch": func() *broken {
		return &broken{apply: func(db state.Database, base, _ state.Positions, w writes) error {
			return db.Apply(base, base, w)
		}}
	},
	"half of a batch is applied": func() *broken {
		return &broken{apply: func(db state.Database, base, next state.Positions, w writes) error {
			all := slices.Collect(w)
			return db.Apply(base, next, slices.Values(all[:len(all)/2]))
		}}
	},
	"deletes are ignored": func() *broken {
		return &broken{apply: func(db state.Database, base, next state.Positions, w writes) error {
			puts := slices.DeleteFunc(slices.Collect(w), func(w state.Write) bool { return w.Delete })
			return db.Apply(base, next, slices.Values(puts))
		}}
	},
	"the base is not checked": func() *broken {
		return &broken{apply: func(db state.Database, _, next state.Positions, w writes) error {
			return db.Apply(db.Positions(), next, w)
		}}
	},
	"a refused batch leaves data behind": func() *broken {
		return &broken{apply: func(db state.Database, base, next state.Positions, w writes) error {
			if now := db.Positions(); !now.Same(base) {
				if err := db.Apply(now, now, w); err != nil {
					return err
				}
			}
			return db.Apply(base, next, w)
		}}
	},
	"stores share their keys": func() *broken {
		first := state.IDOf("inbox")
		return &broken{get: func(db state.Database, _ state.StoreID, key []byte) ([]byte, bool, error) {
			return db.Get(first, key)
		}}
	},
	"reads are stale": func() *broken {
		cache := make(map[string][]byte)
		return &broken{get: func(db state.Database, store state.StoreID, key []byte) ([]byte, bool, error) {
			at := string(rune(store)) + string(key)
			if value, ok := cache[at]; ok {
				return value, true, nil
			}
			value, ok, err := db.Get(store, key)
			if ok {
				cache[at] = value
			}
			return value, ok, err
		}}
	},
	"the upper bound is inclusive": func() *broken {
		return &broken{scan: func(db state.Database, id state.StoreID, r state.Range) entries {
			if r.To != nil {
				r.To = append(slices.Clone(r.To), 0)
			}
			return db.Scan(id, r)
		}}
	},
	"reverse scans are not reversed": func() *broken {
		return &broken{scan: func(db state.Database, id state.StoreID, r state.Range) entries {
			r.Reverse = false
			return db.Scan(id, r)
		}}
	},
	"a view is not a snapshot": func() *broken {
		return &broken{view: func(db state.Database) (state.View, error) { return live{db}, nil }}
	},
}

func TestCheckFindsBrokenDatabases(t *testing.T) {
	const programs = 200
	generator := statetest.Programs(300)
	for name, control := range controls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range programs {
				db := control()
				db.Database = memstore.New()
				if err := statetest.Check(db, generator.Example(seed)); err != nil {
					t.Logf("found by program %d: %.200v", seed, err)
					return
				}
			}
			t.Errorf("%d programs found no difference", programs)
		})
	}
}

// TestHistoryFindsBrokenPrefixes shows that Verify tells a database at a round from one that only
// claims to be.
func TestHistoryFindsBrokenPrefixes(t *testing.T) {
	for name, control := range controls {
		switch name {
		case "positions are not in the batch", "half of a batch is applied", "deletes are ignored",
			"stores share their keys":
		default:
			continue // Verify looks at one moment; these are about other things.
		}
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			db := control()
			db.Database = memstore.New()
			for i := range h.Rounds {
				if h.Apply(db, i, i+1) != nil {
					return
				}
				if n, err := h.Verify(db); err != nil || n != i+1 {
					return
				}
			}
			t.Error("Verify found nothing")
		})
	}
}
