package pebblestore

import (
	"fmt"
	"iter"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/onceward/onceward/state"
)

// Scan implements state.Database.
func (d *database) Scan(store state.StoreID, r state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		s := &scanner{d: d, reverse: r.Reverse}
		s.run(func() (*pebble.Iterator, error) { return newIterator(d.db, store, r) }, yield)
	}
}

// View implements state.Database.
func (d *database) View() (state.View, error) {
	if err := d.drainForScan("view"); err != nil {
		return nil, err
	}
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usableLocked("view"); err != nil {
		return nil, err
	}
	v := &view{d: d, snapshot: d.db.NewSnapshot()}
	// From the snapshot, not from memory: data and positions of one moment.
	encoded, found, err := getRaw(v.snapshot, positionsKey)
	if err = d.fault.read("view", err); err == nil && !found {
		err = fmt.Errorf("pebblestore: view of %s: %w: there are no positions", d.path, state.ErrCorrupt)
	}
	if err == nil {
		v.positions, err = state.ParsePositions(encoded)
	}
	if err != nil {
		_ = v.snapshot.Close() // the first error says more
		return nil, err
	}
	d.open.Lock()
	defer d.open.Unlock()
	d.open.views[v] = struct{}{}
	return v, nil
}

// view implements state.View.
type view struct {
	d         *database
	snapshot  *pebble.Snapshot
	positions state.Positions
	// mu is held shared for each single use of the snapshot, and exclusively to close it.
	mu     sync.RWMutex
	closed bool
}

func (v *view) Positions() state.Positions { return v.positions.Clone() }

func (v *view) Get(store state.StoreID, key []byte) ([]byte, bool, error) {
	v.d.life.RLock()
	defer v.d.life.RUnlock()
	v.mu.RLock()
	defer v.mu.RUnlock()
	if err := v.usableLocked("get from view"); err != nil {
		return nil, false, err
	}
	value, found, err := getRaw(v.snapshot, appendDataKey(make([]byte, 0, dataPrefixSize+len(key)), store, key))
	if err = v.d.fault.read("get", err); err != nil {
		return nil, false, err
	}
	return value, found, nil
}

func (v *view) Scan(store state.StoreID, r state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		s := &scanner{d: v.d, view: v, reverse: r.Reverse}
		s.run(func() (*pebble.Iterator, error) { return newIterator(v.snapshot, store, r) }, yield)
	}
}

// usableLocked is called with life and mu.
func (v *view) usableLocked(op string) error {
	if v.closed {
		return fmt.Errorf("pebblestore: %s: the view is %w", op, state.ErrClosed)
	}
	return v.d.usableLocked(op)
}

func (v *view) Close() error {
	v.d.life.RLock()
	defer v.d.life.RUnlock()
	if v.d.life.closed {
		return nil // the database closed it
	}
	v.d.open.Lock()
	delete(v.d.open.views, v)
	v.d.open.Unlock()
	return v.release()
}

// release closes the snapshot once. The caller holds life.
func (v *view) release() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	v.closed = true
	return v.snapshot.Close()
}

func newIterator(r pebble.Reader, store state.StoreID, span state.Range) (*pebble.Iterator, error) {
	lower, upper := bounds(store, span)
	return r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
}

// scanner runs one scan. It holds the locks for one step at a time and never while it yields: code
// of the caller runs there, for as long as it likes, and may well close the database.
type scanner struct {
	d       *database
	view    *view // nil for a scan of the database itself
	reverse bool
	it      *pebble.Iterator
}

func (s *scanner) run(open func() (*pebble.Iterator, error), yield func(state.Entry, error) bool) {
	defer s.close()
	if s.view == nil {
		if err := s.d.drainForScan("scan"); err != nil {
			yield(state.Entry{}, err)
			return
		}
	}
	for {
		e, ok, err := s.step(open)
		if err != nil {
			yield(state.Entry{}, err)
			return
		}
		if !ok || !yield(e, nil) {
			return
		}
	}
}

// step moves to the next entry, the first one on the first call, and copies it.
func (s *scanner) step(open func() (*pebble.Iterator, error)) (e state.Entry, ok bool, err error) {
	s.d.life.RLock()
	defer s.d.life.RUnlock()
	if s.view != nil {
		s.view.mu.RLock()
		defer s.view.mu.RUnlock()
		err = s.view.usableLocked("scan")
	} else {
		err = s.d.usableLocked("scan")
	}
	if err != nil {
		return e, false, err
	}
	if ok, err = s.move(open); err != nil || !ok {
		return e, false, s.d.fault.read("scan", err)
	}
	key, value := s.it.Key()[dataPrefixSize:], s.it.Value()
	copied := make([]byte, len(key)+len(value))
	copy(copied, key)
	copy(copied[len(key):], value)
	e = state.Entry{Key: copied[:len(key):len(key)], Value: copied[len(key):]}
	if err := s.d.fault.read("scan", s.it.Error()); err != nil {
		return state.Entry{}, false, err
	}
	return e, true, nil
}

func (s *scanner) move(open func() (*pebble.Iterator, error)) (ok bool, err error) {
	switch {
	case s.it == nil:
		if s.it, err = open(); err != nil {
			return false, err
		}
		s.opened()
		if s.reverse {
			ok = s.it.Last()
		} else {
			ok = s.it.First()
		}
	case s.reverse:
		ok = s.it.Prev()
	default:
		ok = s.it.Next()
	}
	return ok, s.it.Error()
}

// opened has the database close the iterator if it ends first. The caller holds life.
func (s *scanner) opened() {
	s.d.open.Lock()
	defer s.d.open.Unlock()
	s.d.open.iterators[s.it] = struct{}{}
}

// close releases the iterator, unless the database did. Its error repeats what step reported.
func (s *scanner) close() {
	s.d.life.RLock()
	defer s.d.life.RUnlock()
	if s.it == nil || s.d.life.closed {
		return
	}
	s.d.open.Lock()
	delete(s.d.open.iterators, s.it)
	s.d.open.Unlock()
	_ = s.it.Close()
}
