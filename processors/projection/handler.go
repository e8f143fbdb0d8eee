package projection

import (
	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// handler is the projection of one task.
type handler[K, V, S any] struct {
	version     func(r topology.Record[K, V]) (int64, error)
	incarnation func(r topology.Record[K, V]) (int64, error)
	fold        func(old S, has bool, r topology.Record[K, V]) (S, error)
	settings    *settings
	rows        state.KeyValue[K, stored[S]]
	nullKey     func(K) bool
	nullValue   func(V) bool
	// parking is nil if no record waits.
	parking *parking[K, V]

	change topology.Emit[K, Row[S]]
	skip   topology.Emit[K, Skipped[V]]
	gap    topology.Emit[K, Gap[V]]
	store  string // and the name of the node
	log    decision.Log

	appliedCounter, staleCounter, duplicatesCounter, gapsCounter *topology.Counter
}

func (h *handler[K, V, S]) handle(c *topology.Context, r topology.Record[K, V]) error {
	if h.nullKey(r.Key) {
		return identity.NullKey()
	}
	at, err := h.position(r)
	if err != nil {
		return err
	}
	old, has, err := h.row(r.Key)
	if err != nil {
		return err
	}
	if has {
		switch order := at.compare(old.position()); {
		case order < 0:
			return h.skipped(c, r, Stale, at, old, true)
		case order == 0:
			return h.skipped(c, r, Duplicate, at, old, true)
		}
	}
	expected := h.expected(at, old, has)
	switch gap := at.Version > expected; {
	case at.Version < expected:
		return topology.Fail(topology.Validation, errBelow)
	case gap && h.parking != nil:
		return h.park(c, r, old, has, at, expected)
	case gap && h.settings.onGap == FailFast:
		return topology.Fail(topology.Validation, errGap)
	}
	row, err := h.nextRow(r, old, has, at)
	if err != nil {
		return err
	}
	if err := h.write(c, r, old, has, row, expected); err != nil || h.parking == nil {
		return err
	}
	return h.settle(c, r.Key, old, has, row)
}

// position reads where r stands.
func (h *handler[K, V, S]) position(r topology.Record[K, V]) (at position, err error) {
	if at.Version, err = h.version(r); err != nil {
		return at, identity.Refused(err)
	}
	if h.incarnation == nil {
		return at, nil
	}
	if at.Incarnation, err = h.incarnation(r); err != nil {
		return at, identity.Refused(err)
	}
	return at, nil
}

// row returns the row of key.
func (h *handler[K, V, S]) row(key K) (row Row[S], has bool, err error) {
	s, has, err := h.rows.Get(key)
	if err == nil && has && s.definition != h.settings.definition {
		reason := otherDefinition(s.definition, h.settings.definition)
		err = topology.Fail(topology.Config, schemas.Reason(reason))
	}
	return s.row, has, err
}

// expected returns the version of the record that would be the next one in the incarnation of at,
// which is higher than the position of old.
func (h *handler[K, V, S]) expected(at position, old Row[S], has bool) int64 {
	switch {
	case h.settings.sparse:
		return at.Version
	case has && old.Incarnation == at.Incarnation:
		return old.Version + 1 // it does not overflow: there is a higher version
	}
	return h.settings.first.Or(at.Version)
}

// nextRow returns the row after r.
func (h *handler[K, V, S]) nextRow(
	r topology.Record[K, V], old Row[S], has bool, at position,
) (row Row[S], err error) {
	row = Row[S]{Version: at.Version, Incarnation: at.Incarnation, Deleted: h.nullValue(r.Value)}
	if row.Deleted {
		return row, nil
	}
	if has = has && !old.Deleted && old.Incarnation == at.Incarnation; !has {
		old = Row[S]{}
	}
	row.Value, err = h.fold(old.Value, has, r)
	return row, err
}

// write makes row, to which r has led, the row of its key.
func (h *handler[K, V, S]) write(
	c *topology.Context, r topology.Record[K, V], old Row[S], has bool, row Row[S], expected int64,
) error {
	if err := h.rows.Put(r.Key, stored[S]{row: row, definition: h.settings.definition}); err != nil {
		return err
	}
	h.appliedCounter.Inc()
	reason := ""
	if row.Version != expected {
		reason = reasonAccepted
	}
	if err := h.decide(c, r, "applied", reason, row.Version, old, has, row, true); err != nil {
		return err
	}
	if err := h.change(c, topology.WithValue(r, row)); err != nil || row.Version == expected {
		return err
	}
	h.gapsCounter.Inc()
	return h.gap(c, topology.WithValue(r, Gap[V]{
		Incarnation: row.Incarnation, Expected: expected, Actual: row.Version, Value: r.Value,
	}))
}

func (h *handler[K, V, S]) skipped(
	c *topology.Context, r topology.Record[K, V], outcome Outcome, at position, row Row[S], has bool,
) error {
	counter, word, reason := h.staleCounter, "stale", ""
	if outcome == Duplicate {
		counter, word = h.duplicatesCounter, "duplicates"
		if at.compare(row.position()) != 0 || !has {
			reason = reasonWaits
		}
	}
	counter.Inc()
	if err := h.decide(c, r, word, reason, at.Version, row, has, row, has); err != nil {
		return err
	}
	return h.skip(c, topology.WithValue(r, Skipped[V]{
		Outcome: outcome, Version: at.Version, Applied: row.Version,
		Incarnation: at.Incarnation, AppliedIncarnation: row.Incarnation, Value: r.Value,
	}))
}

// Reasons of decisions whose outcome alone does not say why.
const (
	reasonAccepted = "versions are missing before the one of the record, and are not waited for"
	reasonWaits    = "a record with its version waits"
)

// decide tells what was decided about r, which has the version given, and the row before and after
// it.
func (h *handler[K, V, S]) decide(
	c *topology.Context, r topology.Record[K, V], outcome, reason string, given int64,
	before Row[S], had bool, after Row[S], has bool,
) error {
	if h.log == nil {
		return nil
	}
	row, err := h.rows.EncodeKey(r.Key)
	if err != nil {
		return err
	}
	d := decision.Decision{Outcome: outcome, Reason: reason, Store: h.store, Row: row, Given: topology.Some(given)}
	if had {
		d.Before = topology.Some(before.Version)
	}
	if has {
		d.After = topology.Some(after.Version)
	}
	return h.log(c, d)
}
