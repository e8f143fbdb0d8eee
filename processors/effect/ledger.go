package effect

import (
	"slices"
	"time"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// ledger is the node that keeps the requests of one task and claims their calls.
type ledger[K, V any] struct {
	agent
	name    string
	request func(r topology.Record[K, V]) (Request, error)
	keys    schemas.Codec[K]
	nullKey func(K) bool

	conflict topology.Emit[K, V]
	known    topology.Emit[K, Result]
	claim    topology.Emit[[]byte, claim]
	log      decision.Log

	requested, inProgress, replayed, conflicting, suppressed, claimed, expired *topology.Counter
	// overdue is for how long the oldest step that is due has not been taken, those of open claims
	// included.
	overdue *topology.Gauge
}

func (h *ledger[K, V]) handle(c *topology.Context, r topology.Record[K, V]) error {
	if h.nullKey(r.Key) {
		return identity.NullKey()
	}
	q, err := h.request(r)
	if err != nil {
		return identity.Refused(err)
	}
	if err := q.check(r.Headers); err != nil {
		return err
	}
	if q.IdempotencyKey == "" {
		q.IdempotencyKey = IdempotencyKey(h.name, q.ID)
	}
	hash, err := q.hash(h.set.json)
	if err != nil {
		return err
	}
	e, has, err := h.effects.Get(q.ID)
	switch {
	case err != nil:
		return err
	case has:
		return h.again(c, r, q.ID, e, hash)
	}
	key, err := h.keys.Append(nil, r.Key)
	if err != nil {
		return topology.Fail(topology.Validation, err)
	}
	e = Effect{
		Type: q.Type, Target: q.Target, BusinessKey: q.BusinessKey, IdempotencyKey: q.IdempotencyKey,
		Status: Received, Request: hash, Payload: slices.Clone(q.Payload), Key: key,
		Headers: r.Headers, Timestamp: r.Timestamp,
	}
	if !slices.Contains(h.set.modes, c.Mode()) {
		e.Status, e.Reason = Suppressed, "no calls are made in mode "+c.Mode().String()
		if err := h.put(q.ID, e, 0); err != nil {
			return err
		}
		h.suppressed.Inc()
		return h.tell(c, r, q.ID, &e, false, "suppressed")
	}
	if err := h.put(q.ID, e, h.soon()); err != nil {
		return err
	}
	h.requested.Inc()
	return h.decide(c, q.ID, "requested", "")
}

// again answers a request whose effect is known.
func (h *ledger[K, V]) again(c *topology.Context, r topology.Record[K, V], id string, e Effect, hash string) error {
	switch {
	case e.Request != hash && !h.set.emitsConflicts:
		return topology.Fail(topology.Conflict, errConflict)
	case e.Request != hash:
		h.conflicting.Inc()
		if err := h.decide(c, id, "conflicts", string(errConflict)); err != nil {
			return err
		}
		return h.conflict(c, r)
	case e.Status.ended():
		h.replayed.Inc()
		return h.tell(c, r, id, &e, true, "replayed")
	case e.Status == Suppressed:
		// Also in a live run. Nobody knows whether the call was made when the event was new.
		h.suppressed.Inc()
		return h.tell(c, r, id, &e, true, "suppressed")
	}
	h.inProgress.Inc()
	return h.tell(c, r, id, &e, true, "in-progress")
}

// tell emits what is known of an effect as the answer to a request.
func (h *ledger[K, V]) tell(
	c *topology.Context, r topology.Record[K, V], id string, e *Effect, again bool, outcome string,
) error {
	if err := h.decide(c, id, outcome, e.Reason); err != nil {
		return err
	}
	return h.known(c, topology.WithValue(r, e.result(id, again)))
}

func (h *ledger[K, V]) decide(c *topology.Context, id, outcome, reason string) error {
	if h.log == nil {
		return nil
	}
	return h.log(c, decision.Decision{
		Outcome: outcome, Reason: reason, Store: h.name, Row: []byte(id), Subject: id,
	})
}

// tick claims what is due, if no claim of this opening is open. It does nothing in a mode without
// calls: what was requested before waits.
func (h *ledger[K, V]) tick(c *topology.Context, now time.Time) error {
	at := now.UnixMilli()
	h.opening.tick = at
	defer h.showLag(at)
	if !slices.Contains(h.set.modes, c.Mode()) {
		return nil
	}
	if err := h.expireOthers(c, at); err != nil {
		return err
	}
	_, open, err := h.claims.Get(h.opening.name)
	if err != nil || open {
		return err
	}
	ids, err := h.due(at)
	if err != nil || len(ids) == 0 {
		return err
	}
	return h.take(c, ids, at)
}

// showLag shows the lag of effects at a tick.
func (h *ledger[K, V]) showLag(at int64) {
	oldest := h.opening.oldest
	if left := h.opening.left; oldest == 0 || left != 0 && left < oldest {
		oldest = left
	}
	if oldest == 0 {
		oldest = at
	}
	h.overdue.Set(max(at-oldest, 0))
}

// expireOthers ends the claims that openings before this one have left, when their time has come.
// No others can appear: only one opening at a time commits. Those that were ended are looked at
// again, in case that is undone.
func (h *ledger[K, V]) expireOthers(c *topology.Context, at int64) error {
	o := h.opening
	if !o.found {
		o.others = nil
		for pair, err := range h.claims.All() {
			if err != nil {
				return err
			}
			if pair.Key != o.name {
				o.others = append(o.others, pair.Key)
			}
		}
		o.found = true
	}
	o.left = 0
	for _, name := range o.others {
		left, has, err := h.claims.Get(name)
		switch {
		case err != nil || !has:
		case at >= left.Expires+h.set.grace.Milliseconds():
			err = h.expire(c, left, at)
		case o.left == 0 || left.At < o.left:
			o.left = left.At
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take claims steps. Their record has the time of the oldest request among them: records of a task
// are taken in the order of their times, and a backlog of requests would hold the claim up until it
// has expired.
func (h *ledger[K, V]) take(c *topology.Context, ids []string, at int64) error {
	next := claim{Opening: h.opening.name, At: at, Expires: at + h.set.lease.Milliseconds()}
	oldest := at
	for _, id := range ids {
		e, has, err := h.effects.Get(id)
		switch {
		case err != nil:
			return err
		case !has:
			return topology.Fail(topology.Corruption, errAgenda)
		}
		was := e.Status
		lookup := was == Unknown && h.set.mayLookUp(&e)
		// An end that nobody was told is one that a person has said. What is unknown, and was to be
		// looked up or repeated by a version of the application that had another answer to it, is
		// no more for this one to find out.
		if was.ended() || was == Unknown && !lookup && !h.set.mayRepeat(&e) {
			if err := h.announce(c, id, e); err != nil {
				return err
			}
			continue
		}
		if lookup {
			e.Lookups++
		} else {
			e.Attempts++
			e.Status = Started
		}
		if err := h.put(id, e, 0); err != nil {
			return err
		}
		next.Steps = append(next.Steps, step{ID: id, Was: was, Lookup: lookup})
		oldest = min(oldest, e.Timestamp)
	}
	if len(next.Steps) == 0 {
		return nil
	}
	h.opening.claims++
	next.Number = h.opening.claims
	h.claimed.Add(int64(len(next.Steps)))
	if err := h.claims.Put(next.Opening, next); err != nil {
		return err
	}
	return h.claim(c, topology.Record[[]byte, claim]{Value: next, Timestamp: max(oldest, 1)})
}

const errAgenda = schemas.Reason("the agenda names an effect that the ledger does not have")

// announce tells what has become of an effect that has no step before it.
func (h *ledger[K, V]) announce(c *topology.Context, id string, e Effect) error {
	if err := h.put(id, e, 0); err != nil {
		return err
	}
	return tellEnd(c, h.keys, h.known, id, &e)
}

// expire ends a claim of an opening that is gone. Its calls may have been made or not.
func (h *ledger[K, V]) expire(c *topology.Context, open claim, at int64) error {
	for _, s := range open.Steps {
		e, has, err := h.effects.Get(s.ID)
		switch {
		case err != nil:
			return err
		case !has:
			return topology.Fail(topology.Corruption, errAgenda)
		}
		h.expired.Inc()
		o := outcome{status: Unknown, reason: reasonExpired}
		if s.Lookup {
			o.reason = e.Reason
		}
		e, tell, err := h.settle(s.ID, e, o, at)
		if err == nil && tell {
			err = tellEnd(c, h.keys, h.known, s.ID, &e)
		}
		if err != nil {
			return err
		}
	}
	return h.claims.Delete(open.Opening)
}
