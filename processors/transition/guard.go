package transition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

const (
	errNoTo         = schemas.Reason("the state that the transition enters is missing")
	errNoVersion    = schemas.Reason("the version of the transition is not one from 1")
	errVersion      = schemas.Reason("the transition has a version, and the guard is declared without Versioned")
	errUnknownState = schemas.Reason("the aggregate is in a state that the machine does not have")
	errHistory      = schemas.Reason("the recorded transitions of the aggregate do not lead to its state")
	errAccepted     = "the id was accepted before, with other states or another version"
	errSame         = "the transition was accepted before"
)

// Transition is a step of an aggregate from one state to another.
type Transition[S ~string] struct {
	// ID names the transition within its aggregate: the id of the fact, never of its delivery.
	ID string `json:"id"`
	// From is the state that it leaves, "" if it creates the aggregate.
	From S `json:"from"`
	// To is the state that it enters.
	To S `json:"to"`
	// Version is that of the aggregate after the transition; see [Versioned], without which it is
	// 0.
	Version int64 `json:"version,omitzero"`
}

// Guarded is a guard in a topology that is being declared. Each of its streams may be used any
// number of times. [EmitRefused] says which refusals the streams of Refused have; Build reports a
// stream that is used without the option, and an option without a stream.
type Guarded[K, V any, S ~string] struct {
	node       *topology.Node[K, V]
	aggregates topology.Store[state.KeyValue[K, Aggregate[S]]]
	facts      topology.Store[state.KeyValue[FactKey[K], Fact[S]]]
	accepted   topology.OutletOf[K, V]
	recorded   topology.OutletOf[K, Fact[S]]
	decisions  decision.Outlet
	// routes is shared by all copies, because Refused adds to it.
	routes *[]route[K, V, S]
}

// route is an outlet for some refusals.
type route[K, V any, S ~string] struct {
	name     string
	refusals []Refusal
	outlet   topology.OutletOf[K, Refused[S, V]]
}

// Guard declares a guard: a node of that name, with two stores whose names begin with it. The
// function read returns the transition that a record asks for; its error is of class Validation
// unless it has a class. What is wrong with the machine is a mistake that Build reports.
func Guard[K, V any, S ~string](
	s topology.Stream[K, V], name string, machine Machine[S],
	read func(r topology.Record[K, V]) (Transition[S], error), opts ...Option,
) Guarded[K, V, S] {
	set := &settings{}
	declare.Apply(&set.Common, set, opts)
	set.Mistake(machine.check())
	if read == nil {
		set.Mistake(errors.New("the function that reads the transition is nil"))
	}
	keys, err := identity.KeyCodec[K](set.Keys)
	set.Mistake(err)
	g := Guarded[K, V, S]{routes: &[]route[K, V, S]{}}
	g.aggregates, g.facts = storesOf[K, S](name, keys, set.versioned)
	var stores []topology.AnyStore
	if keys != nil { // else it would be one more mistake, about the same thing
		stores = append(stores, g.aggregates, g.facts)
	}
	g.node = declare.Node(s, name, &set.Common, stores...)
	g.accepted = topology.Outlet[K, V](g.node, "accepted")
	g.recorded = topology.Outlet[K, Fact[S]](g.node, "facts")
	g.decisions = decision.Declare(g.node)
	clauses(g.node, set)
	if !set.Wrong() {
		g.node.Check(func() error { return g.checkUse(set) })
	}
	machineRules := rulesOf(machine, set.versioned)
	g.node.Process(func(t *topology.Setup) (topology.Handler[K, V], error) {
		h := &handler[K, V, S]{
			read:            read,
			rules:           machineRules,
			nullKey:         identity.Null[K](),
			aggregates:      g.aggregates.In(t),
			facts:           g.facts.In(t),
			accept:          g.accepted.In(t),
			record:          g.recorded.In(t),
			store:           g.aggregates.Name(),
			log:             g.decisions.In(t),
			acceptedCounter: t.Counter("accepted"),
		}
		for r := Duplicate; r <= Corruption; r++ {
			h.refusals[r].counter = t.Counter(r.counted())
			h.refusals[r].fails = r != Duplicate && !set.emits[r]
			for _, to := range *g.routes {
				if slices.Contains(to.refusals, r) && to.outlet.Connected() {
					h.refusals[r].emits = append(h.refusals[r].emits, to.outlet.In(t))
				}
			}
		}
		return h.handle, declare.Readable(h.aggregates)
	})
	return g
}

// checkUse compares the refusals that are emitted with those of the streams that are used.
func (g Guarded[K, V, S]) checkUse(set *settings) error {
	var fail, lost []Refusal
	for _, r := range failing {
		used := slices.ContainsFunc(*g.routes, func(to route[K, V, S]) bool {
			return slices.Contains(to.refusals, r) && to.outlet.Connected()
		})
		switch {
		case used && !set.emits[r]:
			fail = append(fail, r)
		case !used && set.emits[r]:
			lost = append(lost, r)
		}
	}
	var errs []error
	if len(fail) > 0 {
		errs = append(errs, fmt.Errorf("Refused is used for %s, but such a transition fails; EmitRefused emits it instead", textsOf(fail)))
	}
	if len(lost) > 0 {
		errs = append(errs, fmt.Errorf("nothing uses Refused for %s: EmitRefused emits such transitions, and they would be lost; use "+
			"Refused, or remove them from EmitRefused", textsOf(lost)))
	}
	return errors.Join(errs...)
}

// Accepted returns the stream of the records whose transition was accepted, unchanged.
func (g Guarded[K, V, S]) Accepted() topology.Stream[K, V] { return g.accepted.Stream() }

// Facts returns the stream of the transitions that were accepted, one for each.
func (g Guarded[K, V, S]) Facts() topology.Stream[K, Fact[S]] { return g.recorded.Stream() }

// Refused returns the stream of the transitions that were refused for one of the given reasons, or
// for any if none is given. A refusal that several streams have goes to each of them. Every refusal
// but a duplicate needs [EmitRefused], and fails without it. A duplicate that no stream has ends.
func (g Guarded[K, V, S]) Refused(refusals ...Refusal) topology.Stream[K, Refused[S, V]] {
	if len(refusals) == 0 {
		refusals = []Refusal{Duplicate, Stale, Illegal, MissingAggregate, OutOfOrder, Corruption}
	}
	refusals = slices.Compact(slices.Sorted(slices.Values(refusals)))
	// The name is that of the set, so that an outlet stays the same when others come and go.
	name := "refused"
	for _, r := range refusals {
		if !r.valid() {
			g.node.Mistake(fmt.Errorf("Refused: %s is no refusal", r))
			continue
		}
		name += "." + r.String()
	}
	for _, known := range *g.routes {
		if known.name == name {
			return known.outlet.Stream()
		}
	}
	outlet := topology.Outlet[K, Refused[S, V]](g.node, name)
	*g.routes = append(*g.routes, route[K, V, S]{name: name, refusals: refusals, outlet: outlet})
	return outlet.Stream()
}

// Decisions returns the stream of what was decided about each transition, for those who keep
// evidence. Whether anything uses it changes nothing else.
func (g Guarded[K, V, S]) Decisions() topology.Stream[[]byte, decision.Decision] {
	return g.decisions.Stream()
}

// AggregateStore returns the store of the aggregates, for queries and tests.
func (g Guarded[K, V, S]) AggregateStore() topology.Store[state.KeyValue[K, Aggregate[S]]] {
	return g.aggregates
}

// FactStore returns the store of the accepted transitions, for queries and tests. The ID of its
// facts is in their keys alone.
func (g Guarded[K, V, S]) FactStore() topology.Store[state.KeyValue[FactKey[K], Fact[S]]] {
	return g.facts
}

// handler is the guard of one task.
type handler[K, V any, S ~string] struct {
	read       func(r topology.Record[K, V]) (Transition[S], error)
	rules      *rules[S]
	nullKey    func(K) bool
	aggregates state.KeyValue[K, Aggregate[S]]
	facts      state.KeyValue[FactKey[K], Fact[S]]

	accept          topology.Emit[K, V]
	record          topology.Emit[K, Fact[S]]
	store           string
	log             decision.Log
	acceptedCounter *topology.Counter
	refusals        [Corruption + 1]struct {
		counter *topology.Counter
		fails   bool
		emits   []topology.Emit[K, Refused[S, V]]
	}
}

func (h *handler[K, V, S]) handle(c *topology.Context, r topology.Record[K, V]) error {
	if h.nullKey(r.Key) {
		return identity.NullKey()
	}
	t, err := h.read(r)
	if err != nil {
		return identity.Refused(err)
	}
	if err := h.check(t); err != nil {
		return err
	}
	at, exists, err := h.aggregates.Get(r.Key)
	switch {
	case err != nil:
		return err
	case exists && !h.rules.has(at.State):
		return topology.Fail(topology.Config, errUnknownState)
	}
	key := FactKey[K]{Aggregate: r.Key, ID: t.ID}
	first, known, err := h.facts.Get(key)
	switch {
	case err != nil:
		return err
	case known && (!exists || first.Version > at.Version):
		return topology.Fail(topology.Corruption, errHistory)
	case known && first.From == t.From && first.To == t.To && (!h.rules.versioned || first.Version == t.Version):
		return h.refuse(c, r, t, at, Duplicate, errSame)
	case known:
		return h.refuse(c, r, t, at, Corruption, errAccepted)
	}
	if refusal, reason := h.rules.judge(t, at, exists); refusal != 0 {
		return h.refuse(c, r, t, at, refusal, reason)
	}
	return h.enter(c, r, t, key, at)
}

// check looks at the transition alone.
func (h *handler[K, V, S]) check(t Transition[S]) error {
	switch err := identity.CheckID(t.ID); {
	case err != nil:
		return err
	case t.To == "":
		return topology.Fail(topology.Validation, errNoTo)
	case h.rules.versioned && t.Version < 1:
		return topology.Fail(topology.Validation, errNoVersion)
	case !h.rules.versioned && t.Version != 0:
		return topology.Fail(topology.Config, errVersion)
	}
	return nil
}

// enter accepts t.
func (h *handler[K, V, S]) enter(
	c *topology.Context, r topology.Record[K, V], t Transition[S], key FactKey[K], at Aggregate[S],
) error {
	fact := Fact[S]{From: t.From, To: t.To, Version: t.Version, Timestamp: r.Timestamp}
	if !h.rules.versioned {
		fact.Version = at.Version + 1
	}
	if err := h.facts.Put(key, fact); err != nil {
		return err
	}
	if err := h.aggregates.Put(r.Key, at.enter(fact)); err != nil {
		return err
	}
	h.acceptedCounter.Inc()
	if err := h.decide(c, r.Key, t, "accepted", "", at.Version, fact.Version); err != nil {
		return err
	}
	fact.ID = t.ID
	if err := h.record(c, topology.WithValue(r, fact)); err != nil {
		return err
	}
	return h.accept(c, r)
}

func (h *handler[K, V, S]) refuse(
	c *topology.Context, r topology.Record[K, V], t Transition[S], at Aggregate[S], refusal Refusal, reason string,
) error {
	to := &h.refusals[refusal]
	if to.fails {
		return topology.Fail(refusals[refusal].class, schemas.Reason(refusal.String()+": "+reason))
	}
	to.counter.Inc()
	if err := h.decide(c, r.Key, t, refusal.counted(), reason, at.Version, at.Version); err != nil {
		return err
	}
	refused := Refused[S, V]{
		Refusal: refusal, Reason: reason, Transition: t, State: at.State, Version: at.Version, Value: r.Value,
	}
	for _, emit := range to.emits {
		if err := emit(c, topology.WithValue(r, refused)); err != nil {
			return err
		}
	}
	return nil
}

// decide tells what was decided about t. Version 0 is no aggregate.
func (h *handler[K, V, S]) decide(
	c *topology.Context, key K, t Transition[S], outcome, reason string, before, after int64,
) error {
	if h.log == nil {
		return nil
	}
	row, err := h.aggregates.EncodeKey(key)
	if err != nil {
		return err
	}
	d := decision.Decision{Outcome: outcome, Reason: reason, Store: h.store, Row: row, Subject: t.ID}
	if before != 0 {
		d.Before = topology.Some(before)
	}
	if after != 0 {
		d.After = topology.Some(after)
	}
	return h.log(c, d)
}
