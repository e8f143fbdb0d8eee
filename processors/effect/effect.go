package effect

import (
	"errors"
	"strings"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// Effects is a side-effect ledger in a topology that is being declared. Each of its streams may be
// used any number of times. Conflicts has records with [EmitConflicts] only, and something has to
// use it then.
type Effects[K, V any] struct {
	name      string
	node      *topology.Node[K, V]
	parts     parts
	conflicts topology.OutletOf[K, V]
	outcomes  outlets[K]
	requested decision.Outlet
	answered  decision.Outlet
}

// parts are the stores of the ledger, and what its nodes share while a task is open.
type parts struct {
	effects topology.Store[state.KeyValue[string, Effect]]
	agenda  topology.Store[state.KeyValue[dueKey, string]]
	claims  topology.Store[state.KeyValue[string, claim]]
	shared  *topology.MemoryOf[opening]
	set     *settings
}

func (p parts) stores() []topology.AnyStore {
	return []topology.AnyStore{p.effects, p.agenda, p.claims}
}

// Perform declares a side-effect ledger: a node of that name, with stores, internal topics and
// further nodes whose names begin with it. The function request returns what a record asks for; its
// error is of class Validation unless it has a class. The function call makes the calls.
func Perform[K, V any](
	s topology.Stream[K, V], name string,
	request func(r topology.Record[K, V]) (Request, error), call Func, opts ...Option,
) Effects[K, V] {
	set := newSettings(opts)
	if request == nil {
		set.Mistake(errors.New("the function that reads the request is nil"))
	}
	if call == nil {
		set.Mistake(errors.New("the function that makes the calls is nil"))
	}
	keys, err := identity.KeyCodec[K](set.Keys)
	set.Mistake(err)
	p := parts{
		effects: Store(name), agenda: agendaOf(name), claims: claimsOf(name),
		shared: topology.Memory(newOpening), set: set,
	}
	node := declare.Node(s, name, &set.Common, p.stores()...)
	if keys == nil {
		return broken[K, V](name, node, p)
	}
	e := Effects[K, V]{
		name: name, node: node, parts: p,
		conflicts: topology.Outlet[K, V](node, "conflicts"),
		requested: decision.Declare(node),
	}
	clauses(node, name, set)
	declare.CheckUse(node, &set.Common, e.conflicts, declare.Emitted("Conflicts", "a conflict", set.emitsConflicts))
	claims := topology.Outlet[[]byte, claim](node, "claims")
	known := topology.Outlet[K, Result](node, "known")
	node.Process(func(t *topology.Setup) (topology.Handler[K, V], error) {
		h := &ledger[K, V]{
			agent:       newAgent(t, p),
			name:        name,
			request:     request,
			keys:        keys,
			nullKey:     identity.Null[K](),
			conflict:    e.conflicts.In(t),
			known:       known.In(t),
			claim:       claims.In(t),
			log:         e.requested.In(t),
			requested:   t.Counter("requested"),
			inProgress:  t.Counter("in-progress"),
			replayed:    t.Counter("replayed"),
			conflicting: t.Counter("conflicts"),
			suppressed:  t.Counter("suppressed"),
			claimed:     t.Counter("claims"),
			expired:     t.Counter("expired-claims"),
			overdue:     t.Gauge("overdue-milliseconds"),
		}
		t.OnWallClock(every, h.tick)
		return h.handle, nil
	})
	// A claim comes back to its own task, which learns only so that the claim is committed: the key
	// is null, so the record goes to the partition with the number of the task.
	back := topology.RepartitionWith(claims.Stream(), name+"-claims", schemas.Bytes(), schemas.JSON[claim]())
	ended := declareCaller(back, name, p, keys, call)
	// Results go through a topic of their own, so that what fails behind the effect cannot undo
	// what is known of it.
	results := known.Stream().Merge(name+"-known", ended)
	arrived := topology.RepartitionWith(results, name+"-results", keys, schemas.JSON[Result]())
	e.outcomes, e.answered = declareAnswers(arrived, name), declareEvidence(results, name)
	return e
}

// clauses say for the consumer contract what a side-effect ledger is.
func clauses[K, V any](node *topology.Node[K, V], name string, set *settings) {
	conflict := "fails"
	if set.emitsConflicts {
		conflict = "goes to a stream of its own"
	}
	unknown := "waits for a person"
	switch {
	case set.lookup != nil:
		unknown = "is looked up, and " + unknown + " if that does not tell"
	case set.repeatable:
		unknown = "is called again with the same idempotency key, and " + unknown + " if that does not complete it"
	}
	modes := make([]string, len(set.modes))
	for i, m := range set.modes {
		modes[i] = m.String()
	}
	node.Clause(topology.SideEffects, "calls another system, outside of the exactly-once promise; an effect "+
		"with an unknown outcome "+unknown).
		Clause(topology.IdempotencyKey, "the same for every call of an effect; it follows from the name "+name+
			" and the effect id, unless the request has one").
		Clause(topology.KeyAssumption, "the copies of a request have the same record key").
		Clause(topology.OnDuplicate, "the same request is answered with what is known and not called again; another one "+
			"under the id is a conflict, which "+conflict).
		Clause(topology.OutOfOrder, "effects are not ordered, not even those of one key").
		Clause(topology.OnReplay, "calls are made in these modes only: "+strings.Join(modes, ", ")).
		Clause(topology.Retention, "effects are kept without a limit")
}

// broken is a declaration with a mistake for which nothing behind it can be declared.
func broken[K, V any](name string, node *topology.Node[K, V], p parts) Effects[K, V] {
	node.Process(func(*topology.Setup) (topology.Handler[K, V], error) { return nil, errors.New("not declared") })
	return Effects[K, V]{
		name: name, node: node, parts: p,
		conflicts: topology.Outlet[K, V](node, "conflicts"),
		outcomes: outlets[K]{
			completed:  topology.Outlet[K, Result](node, "completed"),
			failed:     topology.Outlet[K, Result](node, "failed"),
			unknown:    topology.Outlet[K, Result](node, "unknown"),
			inProgress: topology.Outlet[K, Result](node, "in-progress"),
			suppressed: topology.Outlet[K, Result](node, "suppressed"),
		},
		requested: decision.Declare(node),
	}
}

// Completed returns the effects that have happened, once each, and once more for every duplicate of
// their request.
func (e Effects[K, V]) Completed() topology.Stream[K, Result] { return e.outcomes.completed.Stream() }

// Failed returns the effects that will not happen, once each, and once more for every duplicate of
// their request.
func (e Effects[K, V]) Failed() topology.Stream[K, Result] { return e.outcomes.failed.Stream() }

// Unknown returns the effects whose outcome a person has to find out; see [Resolve].
func (e Effects[K, V]) Unknown() topology.Stream[K, Result] { return e.outcomes.unknown.Stream() }

// InProgress returns the answers to duplicates of requests whose effect has no end yet.
func (e Effects[K, V]) InProgress() topology.Stream[K, Result] { return e.outcomes.inProgress.Stream() }

// Suppressed returns the effects that were requested in a mode without calls, and the answers to
// duplicates of such requests.
func (e Effects[K, V]) Suppressed() topology.Stream[K, Result] { return e.outcomes.suppressed.Stream() }

// Conflicts returns the records whose effect was requested before with another payload, type,
// target, business or idempotency key, unchanged. It needs [EmitConflicts]; without the option a
// conflict fails.
func (e Effects[K, V]) Conflicts() topology.Stream[K, V] { return e.conflicts.Stream() }

// Requests returns the decisions about requests, one for each that did not fail, for evidence.
func (e Effects[K, V]) Requests() topology.Stream[[]byte, decision.Decision] {
	return e.requested.Stream()
}

// Outcomes returns the decisions about effects, for evidence: one when an effect has ended, is
// suppressed, or waits for a person. Attempts and the answers to duplicates are none. They are told
// in the round in which the outcome is written, and stay whatever becomes of the result behind the
// effect. If what takes them fails, the task stops: a call was made, and must be told.
func (e Effects[K, V]) Outcomes() topology.Stream[[]byte, decision.Decision] {
	return e.answered.Stream()
}

// Store returns the side-effect ledger, for queries and tests.
func (e Effects[K, V]) Store() topology.Store[state.KeyValue[string, Effect]] { return e.parts.effects }
