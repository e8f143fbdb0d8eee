package topology

import (
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// TableRows are the kinds of stores that a table can be kept in: a [TimestampedStore] has the
// newest value of each key, a [VersionedStore] also the values before it, by their times.
type TableRows[K, V any] interface {
	state.Timestamped[K, V] | state.Versioned[K, V]
}

// tableStore is the store of a table.
type tableStore[K, V any] struct {
	AnyStore
	key   schemas.Codec[K]
	value schemas.Codec[V]
	open  func(t *Setup) tableRows[K, V]
	// asOf is nil unless the store is versioned.
	asOf func(t *Setup) asOfGetter[K, V]
}

// tableRows are the rows of a table in a graph.
type tableRows[K, V any] interface {
	// Get returns the value of a key and its time.
	Get(key K) (value V, ms int64, ok bool, err error)
	// set makes v the value of key from a time on, or deletes it.
	set(key K, v Option[V], ms int64) (state.Placement, error)
}

// asOfGetter returns the value that a key had at a time.
type asOfGetter[K, V any] func(key K, ms int64) (value V, from int64, ok bool, err error)

func tableStoreOf[K, V any, S TableRows[K, V]](store Store[S]) tableStore[K, V] {
	x := tableStore[K, V]{AnyStore: store, key: codecOf[K](store.key), value: codecOf[V](store.value)}
	switch s := any(store).(type) {
	case Store[state.Timestamped[K, V]]:
		x.open = func(t *Setup) tableRows[K, V] { return newestRows[K, V]{s.In(t)} }
	case Store[state.Versioned[K, V]]:
		x.open = func(t *Setup) tableRows[K, V] { return versionedRows[K, V]{s.In(t)} }
		x.asOf = func(t *Setup) asOfGetter[K, V] { return s.In(t).GetAsOf }
	}
	return x
}

// view is the view of a table that is kept in the store. old is what the node of the store looks
// at.
func (x tableStore[K, V]) view(old *bool) view[K, V] {
	info, _ := x.info() // what is wrong with it is noted where it is declared
	return view[K, V]{
		stores:  []storeInfo{info},
		open:    func(t *Setup) getter[K, V] { return x.open(t).Get },
		asOf:    x.asOf,
		wantOld: func() { *old = true },
		key:     x.key,
		value:   x.value,
	}
}

// newestRows have the newest value of each key.
type newestRows[K, V any] struct{ state.Timestamped[K, V] }

func (x newestRows[K, V]) set(key K, v Option[V], ms int64) (state.Placement, error) {
	return state.PlacedLatest, setRow(x.Timestamped, key, v, ms)
}

// versionedRows have versions.
type versionedRows[K, V any] struct{ state.Versioned[K, V] }

func (x versionedRows[K, V]) set(key K, v Option[V], ms int64) (state.Placement, error) {
	if !v.ok {
		return x.Delete(key, ms)
	}
	return x.Put(key, v.value, ms)
}

// keeping is what stores the values of a table and passes its changes on, in a graph.
type keeping[K, V any] struct {
	tableRows[K, V]
	// late is nil unless the store is versioned.
	late *Counter
	next Emit[K, Change[V]]
}

func (x tableStore[K, V]) keep(t *Setup, next Emit[K, Change[V]]) keeping[K, V] {
	k := keeping[K, V]{tableRows: x.open(t), next: next}
	if x.asOf != nil {
		k.late = t.Counter(countLate)
	}
	return k
}

// change stores a change and passes it on. One that is older than the history of a versioned table
// is left out.
func (x keeping[K, V]) change(c *Context, r Record[K, Change[V]]) error {
	placed, err := x.set(r.Key, r.Value.New, r.Timestamp)
	if err != nil {
		return err
	}
	if placed == state.NotPlaced {
		x.late.Inc()
		return nil
	}
	r.Value.OutOfOrder = placed == state.PlacedInHistory
	return x.next(c, r)
}

// clauseOrder adds to the contract what a versioned table does with records out of order. plain is
// what another one does.
func (x tableStore[K, V]) clauseOrder(n *node, plain string) {
	if x.asOf == nil {
		n.clause(OutOfOrder, plain)
		return
	}
	n.clause(OutOfOrder, "values are versions by their timestamps; one that is older than the newest of its key goes into the "+
		"history, and one that is older than the history is counted as late and left out")
}

// outOfOrder counts and leaves out the changes of a versioned table that a join cannot use.
type outOfOrder struct{ skipped *Counter }

// leavesOut returns what leaves out changes of t; it lets all of them pass if t is not versioned.
func (t Table[K, V]) leavesOut(s *Setup) outOfOrder {
	if t.view.asOf == nil {
		return outOfOrder{}
	}
	return outOfOrder{s.Counter(countOutOfOrder)}
}

// stops reports whether a change ends here.
func (x outOfOrder) stops(is bool) bool {
	if !is || x.skipped == nil {
		return false
	}
	x.skipped.Inc()
	return true
}
