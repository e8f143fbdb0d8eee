package inbox

import (
	"errors"
	"slices"
	"strconv"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// HeaderFirstSeen is the header of duplicates and conflicts that tells the timestamp of the record which was
// accepted under the id, in milliseconds since the epoch, as decimal text.
const HeaderFirstSeen = "onceward.inbox.first-seen"

const errConflict = schemas.Reason("the id was seen before with another payload")

// Inbox is an inbox in a topology that is being declared. Each of its streams may be used any number of
// times, or not at all; the package documentation says what becomes of the records then.
type Inbox[K, V any] struct {
	name       string
	accepted   topology.OutletOf[K, V]
	duplicates topology.OutletOf[K, V]
	conflicts  topology.OutletOf[K, V]
}

// Dedupe declares an inbox: a node of that name, with a store of that name. The function id returns the id
// of a record, and "" if it has none; its error is of class Validation unless it has a class.
func Dedupe[K, V any](
	s topology.Stream[K, V], name string, id func(r topology.Record[K, V]) (string, error), opts ...Option,
) Inbox[K, V] {
	set := &settings{}
	declare.Apply(&set.Common, set, opts)
	if id == nil {
		set.Mistake(errors.New("the function that reads the id is nil"))
	}
	newHasher, err := hasherFor[K, V](set.payload)
	set.Mistake(err)
	node := declare.Node(s, name, &set.Common, Store(name))
	in := Inbox[K, V]{
		name:       name,
		accepted:   topology.Outlet[K, V](node, "accepted"),
		duplicates: topology.Outlet[K, V](node, "duplicates"),
		conflicts:  topology.Outlet[K, V](node, "conflicts"),
	}
	node.Process(func(t *topology.Setup) (topology.Handler[K, V], error) {
		h := &handler[K, V]{
			id:                id,
			payload:           newHasher(),
			seen:              Store(name).In(t),
			allowMissing:      set.allowMissing,
			accept:            in.accepted.In(t),
			duplicate:         in.duplicates.In(t),
			conflict:          in.conflicts.In(t),
			routesDuplicates:  in.duplicates.Connected(),
			routesConflicts:   in.conflicts.Connected(),
			acceptedCounter:   t.Counter("accepted"),
			duplicatesCounter: t.Counter("duplicates"),
			conflictsCounter:  t.Counter("conflicts"),
			missingCounter:    t.Counter("missing"),
		}
		return h.handle, nil
	})
	return in
}

// Accepted returns the stream of the records that are not duplicates or conflicts, unchanged.
func (i Inbox[K, V]) Accepted() topology.Stream[K, V] { return i.accepted.Stream() }

// Duplicates returns the stream of the records whose id was accepted before with the same payload. They
// carry [HeaderFirstSeen].
func (i Inbox[K, V]) Duplicates() topology.Stream[K, V] { return i.duplicates.Stream() }

// Conflicts returns the stream of the records whose id was accepted before with another payload. They carry
// [HeaderFirstSeen]. As long as nothing uses the stream, a conflict fails.
func (i Inbox[K, V]) Conflicts() topology.Stream[K, V] { return i.conflicts.Stream() }

// Store returns the store of the inbox, for queries and tests.
func (i Inbox[K, V]) Store() topology.StoreOf[string, Entry] { return Store(i.name) }

// handler is the inbox of one task.
type handler[K, V any] struct {
	id           func(r topology.Record[K, V]) (string, error)
	payload      hasher[K, V]
	seen         state.KeyValue[string, Entry]
	allowMissing bool

	accept, duplicate, conflict       topology.Emit[K, V]
	routesDuplicates, routesConflicts bool

	acceptedCounter, duplicatesCounter, conflictsCounter, missingCounter *topology.Counter
}

func (h *handler[K, V]) handle(c *topology.Context, r topology.Record[K, V]) error {
	id, err := h.id(r)
	if err != nil {
		return identity.Refused(err)
	}
	if id == "" && h.allowMissing {
		h.missingCounter.Inc()
		return h.accept(c, r)
	}
	if err := identity.CheckID(id); err != nil {
		return err
	}
	payload, err := h.payload(r)
	if err != nil {
		return identity.Refused(err)
	}
	entry := Entry{Outcome: Accepted, FirstSeen: r.Timestamp, Payload: payload}
	first, seen, err := h.seen.PutIfAbsent(id, entry)
	switch {
	case err != nil:
		return err
	case !seen:
		h.acceptedCounter.Inc()
		return h.accept(c, r)
	case first.Payload == payload:
		h.duplicatesCounter.Inc()
		if !h.routesDuplicates {
			return nil
		}
		return h.duplicate(c, withFirstSeen(r, first.FirstSeen))
	case !h.routesConflicts:
		return topology.Fail(topology.Conflict, errConflict)
	}
	h.conflictsCounter.Inc()
	return h.conflict(c, withFirstSeen(r, first.FirstSeen))
}

// withFirstSeen returns r with the header, in place of one that an inbox before this one may have added.
func withFirstSeen[K, V any](r topology.Record[K, V], millis int64) topology.Record[K, V] {
	headers := make([]topology.Header, 0, len(r.Headers)+1)
	for _, h := range r.Headers {
		if h.Key != HeaderFirstSeen {
			headers = append(headers, h)
		}
	}
	headers = append(headers, topology.Header{Key: HeaderFirstSeen, Value: strconv.AppendInt(nil, millis, 10)})
	r.Headers = slices.Clip(headers)
	return r
}
