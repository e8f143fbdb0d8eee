// Package memstore is a state.Database in memory: the model that other databases are compared with,
// and the store of topology tests. It keeps every rule of the interface, the base check included,
// and nothing survives it.
//
// It is written to be obviously right and fast enough for tests. A batch costs time proportional to
// the number of keys of the stores that it adds keys to, a view a copy of all keys.
package memstore

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/onceward/onceward/state"
)

// Store is a database in memory. All methods may be called by any number of goroutines.
type Store struct {
	mu struct {
		sync.RWMutex
		closed bool
		stores map[state.StoreID]state.Declaration
		data   tables
		// views are closed with the store.
		views map[*view]struct{}
	}
}

var (
	_ state.Database    = (*Store)(nil)
	_ state.KeyDatabase = (*Store)(nil)
)

// New returns an empty database.
func New() *Store {
	s := &Store{}
	s.mu.stores = make(map[state.StoreID]state.Declaration)
	s.mu.data = tables{stores: make(map[state.StoreID]*table)}
	s.mu.views = make(map[*view]struct{})
	return s
}

// tables is the content of a database at one moment.
type tables struct {
	positions state.Positions
	stores    map[state.StoreID]*table
}

// table is one store. keys holds exactly the keys of values, in ascending order. A value is never
// changed in place.
type table struct {
	keys   []string
	values map[string][]byte
}

// Declare implements state.Database.
func (s *Store) Declare(stores ...state.Declaration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return errClosed("declare")
	}
	added, err := state.Undeclared(s.mu.stores, stores, func(id state.StoreID) (bool, error) {
		return len(s.mu.data.entries(id, state.Range{})) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("memstore: declare: %w", err)
	}
	for _, d := range added {
		s.mu.stores[state.IDOf(d.Name)] = d
	}
	return nil
}

// Stores implements state.Database.
func (s *Store) Stores() ([]state.Declaration, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.closed {
		return nil, errClosed("list stores")
	}
	return slices.SortedFunc(maps.Values(s.mu.stores), state.Declaration.Compare), nil
}

// Get implements state.Database.
func (s *Store) Get(store state.StoreID, key []byte) ([]byte, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.closed {
		return nil, false, errClosed("get")
	}
	value, ok := s.mu.data.get(store, key)
	return value, ok, nil
}

// Scan implements state.Database. It copies the references of the whole range when it starts.
func (s *Store) Scan(store state.StoreID, r state.Range) iter.Seq2[state.Entry, error] {
	return s.scan(store, r, func() (*tables, bool) { return &s.mu.data, s.mu.closed })
}

// KeyRows implements state.KeyDatabase.
func (s *Store) KeyRows(dst []state.Entry, store state.StoreID, r state.KeyRange) ([]state.Entry, bool, error) {
	for e, err := range s.Scan(store, r.Range()) {
		if err != nil {
			return dst, false, err
		}
		if r.Contains(e.Key) {
			dst = append(dst, e)
		}
	}
	return dst, true, nil
}

// scan takes the entries out of the tables that source names under the lock, and yields them
// without it: user code runs between two entries and may well use the store.
func (s *Store) scan(store state.StoreID, r state.Range, source func() (data *tables, closed bool),
) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		s.mu.RLock()
		data, closed := source()
		var entries []state.Entry
		if !closed {
			entries = data.entries(store, r)
		}
		s.mu.RUnlock()
		if closed {
			yield(state.Entry{}, errClosed("scan"))
			return
		}
		for _, e := range entries {
			s.mu.RLock()
			_, closed := source()
			s.mu.RUnlock()
			if closed {
				yield(state.Entry{}, errClosed("scan"))
				return
			}
			if !yield(state.Entry{Key: e.Key, Value: copyOf(e.Value)}, nil) {
				return
			}
		}
	}
}

// Positions implements state.Database. It answers after Close as well.
func (s *Store) Positions() state.Positions {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.data.positions.Clone()
}

// Apply implements state.Database.
func (s *Store) Apply(base, next state.Positions, writes iter.Seq[state.Write]) error {
	// Collected before the lock: writes runs code of the caller.
	batch := make(map[state.StoreID]map[string][]byte)
	for w := range writes {
		if batch[w.Store] == nil {
			batch[w.Store] = make(map[string][]byte)
		}
		if w.Delete {
			batch[w.Store][string(w.Key)] = nil
		} else {
			batch[w.Store][string(w.Key)] = copyOf(w.Value)
		}
	}
	return s.step("apply", base, next, func() {
		for store, changes := range batch {
			s.mu.data.table(store).change(changes)
		}
	})
}

// Remove implements state.Database.
func (s *Store) Remove(base, next state.Positions, store state.StoreID, r state.Range) error {
	return s.step("remove", base, next, func() {
		batch := make(map[string][]byte)
		for _, e := range s.mu.data.entries(store, r) {
			batch[string(e.Key)] = nil
		}
		s.mu.data.table(store).change(batch)
	})
}

// Load implements state.Database.
func (s *Store) Load(base, next state.Positions, store state.StoreID, sorted iter.Seq[state.Write]) error {
	batch := make(map[string][]byte)
	n, last := 0, ""
	for w := range sorted {
		if w.Store != store {
			return fmt.Errorf("memstore: load of store %08x: write %d is of store %08x", uint32(store), n, uint32(w.Store))
		}
		key := string(w.Key)
		if n > 0 && key <= last {
			return fmt.Errorf("memstore: load of store %08x: the key of write %d is not above the one before", uint32(store), n)
		}
		n, last = n+1, key
		if w.Delete {
			batch[key] = nil
		} else {
			batch[key] = copyOf(w.Value)
		}
	}
	return s.step("load", base, next, func() { s.mu.data.table(store).change(batch) })
}

// step makes one change with the positions after it, or refuses.
func (s *Store) step(op string, base, next state.Positions, change func()) error {
	if err := next.Validate(); err != nil {
		return fmt.Errorf("memstore: %s: next positions: %w", op, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return errClosed(op)
	}
	if !s.mu.data.positions.Same(base) {
		return &state.BaseError{Base: base.Clone(), Actual: s.mu.data.positions.Clone()}
	}
	change()
	s.mu.data.positions = next.Clone()
	return nil
}

// View implements state.Database.
func (s *Store) View() (state.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, errClosed("view")
	}
	v := &view{store: s, data: s.mu.data.clone()}
	s.mu.views[v] = struct{}{}
	return v, nil
}

// Flush implements state.Database. There is nothing to do.
func (s *Store) Flush() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.closed {
		return errClosed("flush")
	}
	return nil
}

// Checkpoint implements state.Database: it refuses.
func (s *Store) Checkpoint(dir string) error {
	return fmt.Errorf("memstore: checkpoint to %s: the database is in memory and has no files: %w", dir, errors.ErrUnsupported)
}

// Close implements state.Database.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	for v := range s.mu.views {
		v.closed = true
	}
	clear(s.mu.views)
	return nil
}

// view is a copy of the tables. The lock of its store guards closed.
type view struct {
	store  *Store
	data   tables
	closed bool
}

func (v *view) Get(store state.StoreID, key []byte) ([]byte, bool, error) {
	v.store.mu.RLock()
	defer v.store.mu.RUnlock()
	if v.closed {
		return nil, false, errClosed("get from view")
	}
	value, ok := v.data.get(store, key)
	return value, ok, nil
}

func (v *view) Scan(store state.StoreID, r state.Range) iter.Seq2[state.Entry, error] {
	return v.store.scan(store, r, func() (*tables, bool) { return &v.data, v.closed })
}

func (v *view) Positions() state.Positions { return v.data.positions.Clone() }

func (v *view) Close() error {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	v.closed = true
	delete(v.store.mu.views, v)
	return nil
}

func (d *tables) table(store state.StoreID) *table {
	t := d.stores[store]
	if t == nil {
		t = &table{values: make(map[string][]byte)}
		d.stores[store] = t
	}
	return t
}

func (d *tables) clone() tables {
	c := tables{positions: d.positions.Clone(), stores: make(map[state.StoreID]*table, len(d.stores))}
	for store, t := range d.stores {
		c.stores[store] = &table{keys: slices.Clone(t.keys), values: maps.Clone(t.values)}
	}
	return c
}

func (d *tables) get(store state.StoreID, key []byte) ([]byte, bool) {
	t := d.stores[store]
	if t == nil {
		return nil, false
	}
	value, ok := t.values[string(key)]
	if !ok {
		return nil, false
	}
	return copyOf(value), true
}

// entries returns the entries of a range in the order of the scan; the values are the store's own.
func (d *tables) entries(store state.StoreID, r state.Range) []state.Entry {
	t := d.stores[store]
	if t == nil {
		return nil
	}
	from := sort.SearchStrings(t.keys, string(r.From))
	to := len(t.keys)
	if r.To != nil {
		to = max(from, sort.SearchStrings(t.keys, string(r.To)))
	}
	entries := make([]state.Entry, 0, to-from)
	for _, key := range t.keys[from:to] {
		entries = append(entries, state.Entry{Key: []byte(key), Value: t.values[key]})
	}
	if r.Reverse {
		slices.Reverse(entries)
	}
	return entries
}

// change applies the last write of each key; nil is a delete.
func (t *table) change(changes map[string][]byte) {
	var added []string
	removed := false
	for key, value := range changes {
		_, had := t.values[key]
		switch {
		case value == nil:
			delete(t.values, key)
			removed = removed || had
		default:
			t.values[key] = value
			if !had {
				added = append(added, key)
			}
		}
	}
	if removed {
		t.keys = slices.DeleteFunc(t.keys, func(key string) bool {
			_, has := t.values[key]
			return !has
		})
	}
	if len(added) > 0 {
		slices.Sort(added)
		t.keys = mergeSorted(t.keys, added)
	}
}

// mergeSorted returns the union of two sorted lists without common elements. It works from the end,
// in the memory of a where it has room.
func mergeSorted(a, b []string) []string {
	n, m := len(a), len(b)
	a = append(a, b...)
	for i := n + m - 1; m > 0; i-- {
		if n > 0 && a[n-1] > b[m-1] {
			a[i] = a[n-1]
			n--
		} else {
			a[i] = b[m-1]
			m--
		}
	}
	return a
}

// copyOf returns a copy that is never nil: an empty value is not an absent one.
func copyOf(value []byte) []byte { return append([]byte{}, value...) }

func errClosed(op string) error { return fmt.Errorf("memstore: %s: %w", op, state.ErrClosed) }
