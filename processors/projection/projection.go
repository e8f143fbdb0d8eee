package projection

import (
	"errors"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

const errGap = schemas.Reason("versions are missing before the one of the record")

// Projection is a projection in a topology that is being declared. Each of its streams may be used any
// number of times, or not at all.
type Projection[K, V, S any] struct {
	node    *topology.Node[K, V]
	set     *settings
	store   topology.StoreOf[K, Row[S]]
	changes topology.OutletOf[K, Row[S]]
	stale   topology.OutletOf[K, Skipped[V]]
	gaps    topology.OutletOf[K, Gap[V]]
}

// Latest declares a projection: a node of that name, with a store of that name.
//
// The function version returns the version of a record; its error is of class Validation unless it has a
// class. The function fold returns the state after a record. It is given the state before it, which it may
// change and return, and false if there is none, because the aggregate is new or was deleted. It is not
// called for deletes. The codec is for states in the store.
func Latest[K, V, S any](
	s topology.Stream[K, V], name string,
	version func(r topology.Record[K, V]) (int64, error),
	fold func(old S, has bool, r topology.Record[K, V]) (S, error),
	codec schemas.Codec[S], opts ...Option,
) Projection[K, V, S] {
	set := newSettings(opts)
	if version == nil {
		set.Mistake(errors.New("the function that reads the version is nil"))
	}
	if fold == nil {
		set.Mistake(errors.New("the function that folds is nil"))
	}
	if codec == nil {
		set.Mistake(errors.New("the codec of the states is nil"))
	}
	keys, err := identity.KeyCodec[K](set.Keys)
	set.Mistake(err)
	rows, own := storesOf(name, keys, codec, set.definition)
	var stores []topology.AnyStore
	if keys != nil && codec != nil { // else it would be one more mistake, about the same thing
		stores = append(stores, rows)
	}
	node := declare.Node(s, name, &set.Common, stores...)
	p := Projection[K, V, S]{
		node:    node,
		set:     set,
		store:   own,
		changes: topology.Outlet[K, Row[S]](node, "changes"),
		stale:   topology.Outlet[K, Skipped[V]](node, "stale"),
		gaps:    topology.Outlet[K, Gap[V]](node, "gaps"),
	}
	node.Process(func(t *topology.Setup) (topology.Handler[K, V], error) {
		h := &handler[K, V, S]{
			version:           version,
			fold:              fold,
			settings:          set,
			rows:              rows.In(t),
			nullKey:           identity.Null[K](),
			nullValue:         identity.Null[V](),
			change:            p.changes.In(t),
			skip:              p.stale.In(t),
			gap:               p.gaps.In(t),
			appliedCounter:    t.Counter("applied"),
			staleCounter:      t.Counter("stale"),
			duplicatesCounter: t.Counter("duplicates"),
			gapsCounter:       t.Counter("gaps"),
		}
		return h.handle, nil
	})
	return p
}

// Changes returns the stream of the rows that were written, one for each record that was applied.
func (p Projection[K, V, S]) Changes() topology.Stream[K, Row[S]] { return p.changes.Stream() }

// Stale returns the stream of the records that had no effect because the row has their version or a higher
// one.
func (p Projection[K, V, S]) Stale() topology.Stream[K, Skipped[V]] { return p.stale.Stream() }

// Gaps returns the stream of the records that were applied although versions before theirs are missing. It
// takes [OnGap] with AcceptLatest: a use of it where no record can ever come is a mistake that Build reports.
func (p Projection[K, V, S]) Gaps() topology.Stream[K, Gap[V]] {
	switch {
	case p.set.sparse:
		p.node.Mistake(errors.New("Gaps is used, but with Sparse there are no gaps"))
	case p.set.onGap != AcceptLatest:
		p.node.Mistake(errors.New("Gaps is used, but a record that reveals a gap fails; OnGap(AcceptLatest) " +
			"applies it"))
	}
	return p.gaps.Stream()
}

// Store returns the store of the projection, for queries and tests. It refuses rows of other definitions.
func (p Projection[K, V, S]) Store() topology.StoreOf[K, Row[S]] { return p.store }

// storesOf returns the store as the projection itself opens it, and as everybody else does.
func storesOf[K, S any](
	name string, keys schemas.Codec[K], state schemas.Codec[S], definition uint16,
) (topology.StoreOf[K, stored[S]], topology.StoreOf[K, Row[S]]) {
	if state == nil {
		return topology.Store[K, stored[S]](name, keys, nil), topology.Store[K, Row[S]](name, keys, nil)
	}
	rows := rowCodec[S]{state: state, definition: definition}
	return topology.Store(name, keys, schemas.Codec[stored[S]](rows)),
		topology.Store(name, keys, schemas.Codec[Row[S]](ownRowCodec[S]{rows}))
}

// handler is the projection of one task.
type handler[K, V, S any] struct {
	version   func(r topology.Record[K, V]) (int64, error)
	fold      func(old S, has bool, r topology.Record[K, V]) (S, error)
	settings  *settings
	rows      state.KeyValue[K, stored[S]]
	nullKey   func(K) bool
	nullValue func(V) bool

	change topology.Emit[K, Row[S]]
	skip   topology.Emit[K, Skipped[V]]
	gap    topology.Emit[K, Gap[V]]

	appliedCounter, staleCounter, duplicatesCounter, gapsCounter *topology.Counter
}

func (h *handler[K, V, S]) handle(c *topology.Context, r topology.Record[K, V]) error {
	if h.nullKey(r.Key) {
		return identity.NullKey()
	}
	version, err := h.version(r)
	if err != nil {
		return identity.Refused(err)
	}
	old, has, err := h.rows.Get(r.Key)
	switch {
	case err != nil:
		return err
	case has && old.definition != h.settings.definition:
		reason := otherDefinition(old.definition, h.settings.definition)
		return topology.Fail(topology.Config, schemas.Reason(reason))
	case has && version <= old.row.Version:
		return h.skipped(c, r, version, old.row.Version)
	}
	expected := version
	if has && !h.settings.sparse {
		expected = old.row.Version + 1 // it does not overflow: there is a higher version
	}
	if version != expected && h.settings.onGap == FailFast {
		return topology.Fail(topology.Validation, errGap)
	}
	return h.apply(c, r, old.row, has, Row[S]{Version: version}, expected)
}

func (h *handler[K, V, S]) apply(
	c *topology.Context, r topology.Record[K, V], old Row[S], has bool, row Row[S], expected int64,
) error {
	var err error
	if row.Deleted = h.nullValue(r.Value); !row.Deleted {
		if row.Value, err = h.fold(old.Value, has && !old.Deleted, r); err != nil {
			return err
		}
	}
	if err := h.rows.Put(r.Key, stored[S]{row: row, definition: h.settings.definition}); err != nil {
		return err
	}
	h.appliedCounter.Inc()
	if err := h.change(c, topology.WithValue(r, row)); err != nil || row.Version == expected {
		return err
	}
	h.gapsCounter.Inc()
	return h.gap(c, topology.WithValue(r, Gap[V]{Expected: expected, Actual: row.Version, Value: r.Value}))
}

func (h *handler[K, V, S]) skipped(
	c *topology.Context, r topology.Record[K, V], version, applied int64,
) error {
	outcome, counter := Stale, h.staleCounter
	if version == applied {
		outcome, counter = Duplicate, h.duplicatesCounter
	}
	counter.Inc()
	return h.skip(c, topology.WithValue(r, Skipped[V]{
		Outcome: outcome, Version: version, Applied: applied, Value: r.Value,
	}))
}
