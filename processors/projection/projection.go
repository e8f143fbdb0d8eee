package projection

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

const (
	errGap   = schemas.Reason("versions are missing before the one of the record")
	errBelow = schemas.Reason("the version is lower than the first one of an aggregate")
)

// whyNoDeadEnd is a part of a mistake that Build reports.
const whyNoDeadEnd = "what a projection abandons has no record at work whose dead letter it could be, and would be refused for ever; " +
	"write it to a topic"

// Projection is a projection in a topology that is being declared. Each of its streams may be used
// any number of times. Build reports the use of one that can have no record, and a stream that has
// to be used and is not.
type Projection[K, V, S any] struct {
	node      *topology.Node[K, V]
	set       *settings
	store     topology.Store[state.KeyValue[K, Row[S]]]
	changes   topology.OutletOf[K, Row[S]]
	stale     topology.OutletOf[K, Skipped[V]]
	gaps      topology.OutletOf[K, Gap[V]]
	parked    topology.OutletOf[K, Gap[V]]
	repairs   topology.OutletOf[K, Repair]
	abandoned topology.OutletOf[K, Abandoned[V]]
	decisions decision.Outlet
}

// Latest declares a projection: a node of that name, with a store of that name.
//
// The function version returns the version of a record; its error is of class Validation unless it
// has a class. The function fold returns the state after a record. It is given the state before it,
// which it may change and return, and false if there is none, because the aggregate is new or was
// deleted. It is not called for deletes. The codec is for states in the store.
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
	incarnation, err := typed[func(topology.Record[K, V]) (int64, error)]("Incarnation", set.incarnation)
	set.Mistake(err)
	values, err := typed[schemas.Codec[V]]("the codec of the records that wait", set.values)
	set.Mistake(err)
	rows, own := storesOf(name, keys, codec, set.definition)
	var stores []topology.AnyStore
	if keys != nil && codec != nil { // else it would be one more mistake, about the same thing
		stores = append(stores, rows)
	}
	waiting := waitingStores[K, V]{}
	if keys != nil && values != nil {
		waiting = waitingStoresOf(name, keys, values)
		stores = append(stores, waiting.records, waiting.queues)
	}
	node := declare.Node(s, name, &set.Common, stores...)
	p := Projection[K, V, S]{
		node:      node,
		set:       set,
		store:     own,
		changes:   topology.Outlet[K, Row[S]](node, "changes"),
		stale:     topology.Outlet[K, Skipped[V]](node, "stale"),
		gaps:      topology.Outlet[K, Gap[V]](node, "gaps"),
		parked:    topology.Outlet[K, Gap[V]](node, "parked"),
		repairs:   topology.Outlet[K, Repair](node, "repairs"),
		abandoned: topology.Outlet[K, Abandoned[V]](node, "abandoned"),
		decisions: decision.Declare(node),
	}
	p.abandoned.NoDeadEnd(whyNoDeadEnd)
	clauses(node, set)
	p.checkUses()
	node.Process(func(t *topology.Setup) (topology.Handler[K, V], error) {
		h := &handler[K, V, S]{
			version:           version,
			incarnation:       incarnation,
			fold:              fold,
			settings:          set,
			rows:              rows.In(t),
			nullKey:           identity.Null[K](),
			nullValue:         identity.Null[V](),
			change:            p.changes.In(t),
			skip:              p.stale.In(t),
			gap:               p.gaps.In(t),
			store:             name,
			log:               p.decisions.In(t),
			appliedCounter:    t.Counter("applied"),
			staleCounter:      t.Counter("stale"),
			duplicatesCounter: t.Counter("duplicates"),
			gapsCounter:       t.Counter("gaps"),
		}
		if set.limits != nil {
			p.setUpParking(t, h, waiting)
			return h.handle, h.showWaiting(t)
		}
		return h.handle, nil
	})
	return p
}

// typed returns what an option was given, which must be a T; the zero T if it was not used.
func typed[T any](option string, given any) (T, error) {
	var none T
	if given == nil {
		return none, nil
	}
	if t, ok := given.(T); ok {
		return t, nil
	}
	return none, fmt.Errorf("%s is a %T, which is not for the types of the stream; it takes a %s",
		option, given, reflect.TypeFor[T]())
}

// setUpParking gives h what it needs to keep records that wait.
func (p Projection[K, V, S]) setUpParking(
	t *topology.Setup, h *handler[K, V, S], stores waitingStores[K, V],
) {
	h.parking = &parking[K, V]{
		limits:           *p.set.limits,
		repairs:          p.set.repairs,
		records:          stores.records.In(t),
		queues:           stores.queues.In(t),
		park:             p.parked.In(t),
		repair:           p.repairs.In(t),
		abandon:          p.abandoned.In(t),
		parkedCounter:    t.Counter("parked"),
		releasedCounter:  t.Counter("released"),
		repairsCounter:   t.Counter("repairs"),
		abandonedCounter: t.Counter("abandoned"),
		stayedCounter:    t.Counter("stayed"),
		codec:            stores.codec,
	}
	h.schedule(t)
}

// checkUses has Build compare what becomes of gaps with the use of the streams.
func (p Projection[K, V, S]) checkUses() {
	gaps, parked := declare.Use{Stream: "Gaps"}, declare.Use{Stream: "Parked"}
	abandoned, repairs := declare.Use{Stream: "Abandoned"}, declare.Use{Stream: "Repairs"}
	switch {
	case p.set.sparse:
		gaps.Never = "with Sparse there are no gaps"
	case p.set.limits != nil && p.set.limits.Then != AcceptLatest:
		gaps.Never = "no gap is accepted; Limits.Then does it with AcceptLatest"
	case p.set.limits == nil && p.set.onGap != AcceptLatest:
		gaps.Never = "a record that reveals a gap fails; OnGap(AcceptLatest) applies it"
	}
	if p.set.limits != nil {
		abandoned.Needed = "records that wait go there when the projection gives up, and they would be lost"
	} else {
		parked.Never = "no record waits; ParkGaps lets them"
		abandoned.Never = parked.Never
	}
	if p.set.repairs {
		repairs.Needed = "RepairGaps asks for missing versions there"
	} else {
		repairs.Never = "nothing is asked for; RepairGaps does it"
	}
	declare.CheckUse(p.node, &p.set.Common, p.gaps, gaps)
	declare.CheckUse(p.node, &p.set.Common, p.parked, parked)
	declare.CheckUse(p.node, &p.set.Common, p.abandoned, abandoned)
	declare.CheckUse(p.node, &p.set.Common, p.repairs, repairs)
}

// Changes returns the stream of the rows that were written, one for each record that was applied.
func (p Projection[K, V, S]) Changes() topology.Stream[K, Row[S]] { return p.changes.Stream() }

// Stale returns the stream of the records that had no effect because the row has their version or a
// higher one, or a record with their version waits.
func (p Projection[K, V, S]) Stale() topology.Stream[K, Skipped[V]] { return p.stale.Stream() }

// Gaps returns the stream of the records that were applied although versions before theirs are
// missing. It takes AcceptLatest, in [OnGap] or in [Limits].
func (p Projection[K, V, S]) Gaps() topology.Stream[K, Gap[V]] { return p.gaps.Stream() }

// Parked returns the stream of the records that have begun to wait. It takes [ParkGaps] or
// [RepairGaps], as Abandoned does.
func (p Projection[K, V, S]) Parked() topology.Stream[K, Gap[V]] { return p.parked.Stream() }

// Abandoned returns the stream of the records that have waited in vain. They are in none of the
// rows, and are kept nowhere else. One that is refused there waits on. A dead letter cannot be made
// of it, so that deadletter.Send behind it is a mistake that Build reports.
//
// What is to have another chance is written to a topic from which it comes in front of the
// projection, and not in front of an inbox before it, which takes it for a copy.
func (p Projection[K, V, S]) Abandoned() topology.Stream[K, Abandoned[V]] {
	return p.abandoned.Stream()
}

// Repairs returns the stream of the requests for missing versions, one for each range of them when
// it is first seen; which are asked for again is said with [RepairGaps], which it takes.
func (p Projection[K, V, S]) Repairs() topology.Stream[K, Repair] { return p.repairs.Stream() }

// Decisions returns the stream of what was decided about each record, for those who keep evidence:
// that it was applied, was stale or a duplicate, waits, or is abandoned. Whether anything uses it
// changes nothing else.
func (p Projection[K, V, S]) Decisions() topology.Stream[[]byte, decision.Decision] {
	return p.decisions.Stream()
}

// Store returns the store of the projection, for queries and tests. It refuses rows of other
// definitions.
func (p Projection[K, V, S]) Store() topology.Store[state.KeyValue[K, Row[S]]] { return p.store }
