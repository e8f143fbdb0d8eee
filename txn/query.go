package txn

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// ErrNotServing says that a partition of a store cannot be read in this process now: it is not assigned to it, or it is being restored.
var ErrNotServing = errors.New("not served by this process")

// View is a consistent picture of one partition of a store: committed state only, at the position that it carries. It may be used
// from one goroutine and must be closed.
type View[K, V any] struct {
	store state.KeyValue[K, V]
	view  state.View
}

// Read returns a view of a store's partition. It reads what is committed and applied, never the writes of an open round. It fails
// with ErrNotServing while the task is not running here.
func Read[K, V any](a *App, store topology.StoreOf[K, V], partition int32) (*View[K, V], error) {
	db, err := a.database(store.Name(), partition)
	if err != nil {
		return nil, err
	}
	view, err := db.View()
	if err != nil {
		if errors.Is(err, state.ErrClosed) {
			err = fmt.Errorf("%w: %w", ErrNotServing, err)
		}
		return nil, fmt.Errorf("reading store %s[%d]: %w", store.Name(), partition, err)
	}
	return &View[K, V]{store: store.Open(viewBytes{view, state.IDOf(store.Name())}), view: view}, nil
}

// Get returns the value of a key; ok is false when there is none.
func (v *View[K, V]) Get(key K) (value V, ok bool, err error) { return v.store.Get(key) }

// All returns the entries in the order of their encoded keys. An error ends the sequence.
func (v *View[K, V]) All() iter.Seq2[state.Pair[K, V], error] { return v.store.All() }

// Positions says which input offsets and changelog positions the view contains, and by which round it was committed.
func (v *View[K, V]) Positions() state.Positions { return v.view.Positions() }

// Close releases the view.
func (v *View[K, V]) Close() error { return v.view.Close() }

// database finds the database of a running task that has the store.
func (a *App) database(store string, partition int32) (state.Database, error) {
	notServing := fmt.Errorf("store %s[%d] is %w", store, partition, ErrNotServing)
	for _, sub := range a.topology.Subtopologies() {
		if !slices.ContainsFunc(sub.Stores, func(s topology.StoreInfo) bool { return s.Name == store }) {
			continue
		}
		a.mu.Lock()
		s := a.mu.session
		a.mu.Unlock()
		if s == nil {
			return nil, notServing
		}
		s.tasks.RLock()
		defer s.tasks.RUnlock()
		e := s.tasks.entries[topology.TaskID{Subtopology: sub.Name, Partition: partition}]
		if e == nil || e.database == nil || e.stopped != nil {
			return nil, notServing
		}
		return e.database, nil
	}
	return nil, fmt.Errorf("the topology has no store %q", store)
}

// viewBytes is one store of a view, as typed stores want it.
type viewBytes struct {
	view state.View
	id   state.StoreID
}

var errReadOnly = errors.New("a view cannot be written")

func (b viewBytes) Get(key []byte) ([]byte, bool, error)             { return b.view.Get(b.id, key) }
func (b viewBytes) Scan(r state.Range) iter.Seq2[state.Entry, error] { return b.view.Scan(b.id, r) }
func (viewBytes) Put(_, _ []byte) error                              { return errReadOnly }
func (viewBytes) Delete([]byte) error                                { return errReadOnly }
