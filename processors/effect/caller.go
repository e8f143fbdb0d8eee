package effect

import (
	"context"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// caller is the node that takes the steps of committed claims in one task.
type caller[K any] struct {
	agent
	keys schemas.Codec[K]
	call Func
	end  topology.Emit[K, Result]

	completed, retryable, terminal, unknown, unused *topology.Counter
}

// declareCaller declares the node that reads the claims, and returns what it has found out.
func declareCaller[K any](
	claims topology.Stream[[]byte, claim], name string, p parts, keys schemas.Codec[K], call Func,
) topology.Stream[K, Result] {
	node := topology.Stateful(claims, name+callerSuffix, p.stores()...)
	// A claim that became a dead letter would leave its effects open for ever.
	for _, class := range []topology.Class{
		topology.Transient, topology.Overload, topology.Conflict, topology.Validation, topology.Poison,
	} {
		node.OnError(class, topology.Policy{Action: topology.Stop})
	}
	end := topology.Outlet[K, Result](node, "ended")
	node.Process(func(t *topology.Setup) (topology.Handler[[]byte, claim], error) {
		h := &caller[K]{
			agent: newAgent(t, p), keys: keys, call: call, end: end.In(t),
			completed: t.Counter("completed"),
			retryable: t.Counter("failed-retryable"),
			terminal:  t.Counter("failed-terminal"),
			unknown:   t.Counter("unknown"),
			unused:    t.Counter("unused-claims"),
		}
		return h.handle, nil
	})
	return end.Stream()
}

// handle takes the steps of a claim that is known to be committed, because this is its record.
func (h *caller[K]) handle(c *topology.Context, r topology.Record[[]byte, claim]) error {
	if r.Value.Opening != h.opening.name {
		return nil // it will expire: nobody knows whether its calls were made
	}
	open, has, err := h.claims.Get(h.opening.name)
	if err != nil || !has || open.Number != r.Value.Number {
		return err // nothing but an offset that was moved back brings a claim again
	}
	began := time.Now()
	effects, err := h.load(open.Steps)
	if err != nil {
		return err
	}
	if h.opening.taken != open.Number {
		// From here on they count as taken, whatever becomes of this round.
		h.opening.taken, h.opening.outcomes = open.Number, h.take(&open, effects, began)
	}
	if err := h.claims.Delete(open.Opening); err != nil {
		return err
	}
	after := open.At + millis(began)
	for i, s := range open.Steps {
		if err := h.conclude(c, s, effects[i], h.opening.outcomes[i], after); err != nil {
			return err
		}
	}
	return nil
}

func (h *caller[K]) load(steps []step) ([]Effect, error) {
	effects := make([]Effect, len(steps))
	for i, s := range steps {
		e, has, err := h.effects.Get(s.ID)
		switch {
		case err != nil:
			return nil, err
		case !has:
			return nil, topology.Fail(topology.Corruption, errAgenda)
		}
		effects[i] = e
	}
	return effects, nil
}

// take makes the calls. A call is only started if the claim holds until it has ended.
func (h *caller[K]) take(open *claim, effects []Effect, began time.Time) []outcome {
	todo := make([]func(ctx context.Context) outcome, len(effects))
	for i, s := range open.Steps {
		e := &effects[i]
		call := Call{
			ID: s.ID, Type: e.Type, Target: e.Target, BusinessKey: e.BusinessKey,
			IdempotencyKey: e.IdempotencyKey, Payload: e.Payload, Attempt: e.Attempts,
		}
		if s.Lookup {
			todo[i] = func(ctx context.Context) outcome { return lookedUp(h.set.lookup(ctx, call)) }
		} else {
			todo[i] = func(ctx context.Context) outcome { return outcomeOf(h.call(ctx, call)) }
		}
	}
	expires := time.UnixMilli(open.Expires)
	mayStart := func() bool {
		return time.Since(began) < startMax && !h.set.now().Add(h.set.timeout).After(expires)
	}
	return perform(h.set.parallel, todo, h.set.timeout, mayStart)
}

// conclude writes what a step has found out. A lookup has looked at all calls, and a call knows of
// itself alone.
func (h *caller[K]) conclude(c *topology.Context, s step, e Effect, o outcome, after int64) error {
	if e.Doubt && !s.Lookup {
		o = o.inDoubt()
	}
	switch o.status {
	case Completed:
		h.completed.Inc()
	case FailedRetryable:
		h.retryable.Inc()
	case FailedTerminal:
		h.terminal.Inc()
	case Unknown:
		h.unknown.Inc()
	default:
		h.unused.Inc()
		return h.giveBack(s, e)
	}
	e, tell, err := h.settle(s.ID, e, o, after)
	if err != nil || !tell {
		return err
	}
	return tellEnd(c, h.keys, h.end, s.ID, &e)
}

// giveBack undoes the claim of a step that was certainly not taken.
func (h *caller[K]) giveBack(s step, e Effect) error {
	if s.Lookup {
		e.Lookups--
	} else {
		e.Attempts--
	}
	e.Status = s.Was
	return h.put(s.ID, e, h.soon())
}

// tellEnd emits what has become of an effect, as a record of its request's key, time and headers.
func tellEnd[K any](c *topology.Context, keys schemas.Codec[K], emit topology.Emit[K, Result], id string, e *Effect) error {
	key, err := keys.Decode(e.Key)
	if err != nil {
		return topology.Fail(topology.Corruption, err)
	}
	headers := e.Headers
	if headers == nil {
		headers = []topology.Header{} // and not those of the record at work
	}
	return emit(c, topology.Record[K, Result]{
		Key: key, Value: e.result(id, false), Timestamp: max(e.Timestamp, 1), Headers: headers,
	})
}
