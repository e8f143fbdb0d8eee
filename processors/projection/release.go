package projection

import (
	"math"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// parking is what the handler of one task has beside its rows if records wait.
type parking[K, V any] struct {
	limits  Limits
	repairs bool
	records state.KeyValue[parkedKey[K], parked[V]]
	queues  state.KeyValue[K, queue]

	park    topology.Emit[K, Gap[V]]
	repair  topology.Emit[K, Repair]
	abandon topology.Emit[K, Abandoned[V]]

	parkedCounter, releasedCounter, repairsCounter, abandonedCounter *topology.Counter
}

// park keeps r until the versions before it have come, or a limit is reached.
func (h *handler[K, V, S]) park(
	c *topology.Context, r topology.Record[K, V], old Row[S], has bool, at position, expected int64,
) error {
	p := h.parking
	key := parkedKey[K]{Key: r.Key, At: at}
	q, waits, err := p.queues.Get(r.Key)
	if err != nil {
		return err
	}
	missing := Repair{Incarnation: at.Incarnation, From: expected, To: at.Version - 1}
	if !waits {
		q = queue{Highest: at, Since: c.StreamTime()}
	} else {
		_, known, err := p.records.Get(key)
		switch full := q.Records >= int64(p.limits.Records); {
		case err != nil:
			return err
		case known:
			return h.skipped(c, r, Duplicate, at, old, has)
		case full && p.limits.Then == FailFast:
			return topology.Fail(topology.Validation, errFull)
		}
		switch {
		case at.Incarnation < q.Highest.Incarnation:
			if missing.From, err = h.askFrom(key, expected); err != nil {
				return err
			}
		case at.compare(q.Highest) < 0:
			missing.From = missing.To + 1 // asked for when the highest came
		case at.Incarnation == q.Highest.Incarnation:
			missing.From = q.Highest.Version + 1
			q.Highest = at
		default:
			q.Highest = at
		}
	}
	if err := p.records.Put(key, parkedOf(c, r)); err != nil {
		return err
	}
	q.Records++
	p.parkedCounter.Inc()
	if err := h.decide(c, r, "parked", string(errGap), at.Version, old, has, old, has); err != nil {
		return err
	}
	gap := Gap[V]{Incarnation: at.Incarnation, Expected: expected, Actual: at.Version, Value: r.Value}
	if err := p.park(c, topology.WithValue(r, gap)); err != nil {
		return err
	}
	if p.repairs && missing.From <= missing.To {
		p.repairsCounter.Inc()
		if err := p.repair(c, topology.WithValue(r, missing)); err != nil {
			return err
		}
	}
	if q.Records > int64(p.limits.Records) {
		return h.acceptGap(c, r.Key, old, has, q)
	}
	return p.queues.Put(r.Key, q)
}

// askFrom returns the first version that is missing before key and was not asked for yet, where a record of a higher
// incarnation waits: what was asked for before those of its own incarnation that wait, the last one says. The highest
// of all of them spares this look to a key without such incarnations.
func (h *handler[K, V, S]) askFrom(key parkedKey[K], expected int64) (int64, error) {
	b, err := h.parking.records.EncodeKey(key)
	if err != nil {
		return 0, err
	}
	waiting := state.Prefix(b[:len(b)-versionBytes])
	waiting.Reverse = true
	for pair, err := range h.parking.records.Scan(waiting) {
		return pair.Key.At.Version + 1, err
	}
	return expected, nil
}

// settle does what the row, which r has just moved there, has been waited for.
func (h *handler[K, V, S]) settle(c *topology.Context, key K, old Row[S], row Row[S]) error {
	q, waits, err := h.parking.queues.Get(key)
	if err != nil || !waits {
		return err
	}
	if row.Incarnation != old.Incarnation {
		if q, err = h.dropPassed(c, key, row, q); err != nil {
			return err
		}
	}
	return h.release(c, key, row, q)
}

// release applies the records that have waited for row, in the order of their versions.
func (h *handler[K, V, S]) release(c *topology.Context, key K, row Row[S], q queue) error {
	for q.Records > 0 && row.Version < math.MaxInt64 {
		next := parkedKey[K]{Key: key, At: position{row.Incarnation, row.Version + 1}}
		p, found, err := h.parking.records.Get(next)
		if err != nil {
			return err
		}
		if !found {
			break
		}
		q.Records--
		// If it is refused the row stays, and its version is missing again: the next look ends the loop.
		if row, _, err = h.applyParked(c, next, p, row, true); err != nil {
			return err
		}
	}
	if q.Records == 0 {
		return h.parking.queues.Delete(key)
	}
	q.Clock = 0
	if now := c.StreamTime(); now != state.NoTime {
		q.Since = now
	}
	return h.parking.queues.Put(key, q)
}

// acceptGap applies the first record that waits as if no version were missing before it, and those that have
// waited for it.
func (h *handler[K, V, S]) acceptGap(c *topology.Context, key K, old Row[S], has bool, q queue) error {
	waiting, err := h.waitingOf(key)
	if err != nil {
		return err
	}
	for pair, err := range h.parking.records.Scan(waiting) {
		if err != nil {
			return err
		}
		q.Records--
		row, applied, err := h.applyParked(c, pair.Key, pair.Value, old, has)
		if err != nil {
			return err
		}
		if applied {
			return h.release(c, key, row, q)
		}
	}
	return h.parking.queues.Delete(key)
}

// waitingOf returns the range of the records of key that wait.
func (h *handler[K, V, S]) waitingOf(key K) (state.Range, error) {
	b, err := h.parking.records.EncodeKey(parkedKey[K]{Key: key})
	if err != nil {
		return state.Range{}, err
	}
	return state.Prefix(b[:len(b)-positionBytes]), nil
}

// applyParked takes a record out of the queue and applies it. One that is refused, by fold or behind the projection, is
// abandoned, because the record at work is not to blame for it; applied is false then.
func (h *handler[K, V, S]) applyParked(
	c *topology.Context, key parkedKey[K], p parked[V], old Row[S], has bool,
) (row Row[S], applied bool, err error) {
	if err := h.parking.records.Delete(key); err != nil {
		return row, false, err
	}
	expected := h.expected(key.At, old, has)
	err = takeUp(c, key.Key, p, func(r topology.Record[K, V]) error {
		refused, err := c.Try(func() error {
			var err error
			if row, err = h.nextRow(r, old, has, key.At); err != nil {
				return err
			}
			h.parking.releasedCounter.Inc()
			return h.write(c, r, old, has, row, expected)
		})
		if applied = err == nil && refused == nil; applied || err != nil {
			return err
		}
		row = old
		return h.abandon(c, r, old, has, key.At, expected, Failed, h.message(refused))
	})
	return row, applied, err
}

// message says why a record was refused, and where that was not here, by which node.
func (h *handler[K, V, S]) message(refused *topology.Failure) string {
	message := refused.Class.String() + ": " + refused.Reason()
	if refused.Node != h.store {
		message = "node " + refused.Node + ": " + message
	}
	return message
}

// dropPassed drops the records that have waited for what comes before row.
func (h *handler[K, V, S]) dropPassed(c *topology.Context, key K, row Row[S], q queue) (queue, error) {
	waiting, err := h.waitingOf(key)
	if err != nil {
		return q, err
	}
	for pair, err := range h.parking.records.Scan(waiting) {
		switch {
		case err != nil:
			return q, err
		case pair.Key.At.compare(row.position()) > 0:
			return q, nil
		}
		if err := h.parking.records.Delete(pair.Key); err != nil {
			return q, err
		}
		q.Records--
		at := pair.Key.At
		err = takeUp(c, key, pair.Value, func(r topology.Record[K, V]) error {
			refused, err := c.Try(func() error { return h.skipped(c, r, Stale, at, row, true) })
			if err != nil || refused == nil {
				return err
			}
			return h.abandon(c, r, row, true, at, at.Version, Failed, h.message(refused))
		})
		if err != nil {
			return q, err
		}
	}
	return q, nil
}

// abandon hands a record over that was taken out of the queue.
func (h *handler[K, V, S]) abandon(
	c *topology.Context, r topology.Record[K, V], row Row[S], has bool, at position, expected int64,
	reason Reason, message string,
) error {
	h.parking.abandonedCounter.Inc()
	if err := h.decide(c, r, "abandoned", reason.String()+": "+message, at.Version, row, has, row, has); err != nil {
		return err
	}
	return h.parking.abandon(c, topology.WithValue(r, Abandoned[V]{
		Reason: reason, Message: message, Incarnation: at.Incarnation, Expected: expected, Actual: at.Version,
		Value: r.Value,
	}))
}

// schedule declares when the limits in time are looked at.
func (h *handler[K, V, S]) schedule(t *topology.Setup) {
	if limit := h.parking.limits.StreamTime; limit > 0 {
		t.OnStreamTime(interval(limit), func(c *topology.Context, _ time.Time) error {
			return h.expire(c, StreamTimeLimit, func(q *queue) (due, changed bool) {
				return c.StreamTime()-q.Since >= limit.Milliseconds(), false
			})
		})
	}
	if limit := h.parking.limits.WallClock; limit > 0 {
		t.OnWallClock(interval(limit), func(c *topology.Context, at time.Time) error {
			now := at.UnixMilli()
			return h.expire(c, WallClockLimit, func(q *queue) (due, changed bool) {
				if q.Clock == 0 || q.Clock > now { // the clock was set back
					q.Clock = now
					return false, true
				}
				return now-q.Clock >= limit.Milliseconds(), false
			})
		})
	}
}

// interval returns how often a limit is looked at.
func interval(limit time.Duration) time.Duration {
	return max(limit/8, time.Millisecond).Truncate(time.Millisecond)
}

// expire gives up the waiting of all keys for which look says that it is due.
func (h *handler[K, V, S]) expire(
	c *topology.Context, reason Reason, look func(q *queue) (due, changed bool),
) error {
	for pair, err := range h.parking.queues.All() {
		if err != nil {
			return err
		}
		due, changed := look(&pair.Value)
		switch {
		case due:
			err = h.giveUp(c, pair.Key, pair.Value, reason)
		case changed:
			err = h.parking.queues.Put(pair.Key, pair.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// giveUp does what the limits say is to follow.
func (h *handler[K, V, S]) giveUp(c *topology.Context, key K, q queue, reason Reason) error {
	old, has, err := h.row(key)
	if err != nil {
		return err
	}
	if h.parking.limits.Then == AcceptLatest {
		return h.acceptGap(c, key, old, has, q)
	}
	waiting, err := h.waitingOf(key)
	if err != nil {
		return err
	}
	for pair, err := range h.parking.records.Scan(waiting) {
		if err != nil {
			return err
		}
		if err := h.parking.records.Delete(pair.Key); err != nil {
			return err
		}
		at := pair.Key.At
		err = takeUp(c, key, pair.Value, func(r topology.Record[K, V]) error {
			return h.abandon(c, r, old, has, at, h.expected(at, old, has), reason, string(errGap))
		})
		if err != nil {
			return err
		}
	}
	return h.parking.queues.Delete(key)
}

const errFull = schemas.Reason("versions are missing before the one of the record, and as many records of its " +
	"key wait for them as may")
