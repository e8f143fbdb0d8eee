package projection

import (
	"math"

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

	parkedCounter, releasedCounter, repairsCounter, abandonedCounter, stayedCounter *topology.Counter

	codec schemas.Codec[parked[V]]
	// look counts what the look at work has given up, nil while there is none.
	look *portion
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
			missing.From = max(q.Highest.Version+1, expected)
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
	if q.Records <= int64(p.limits.Records) {
		return p.queues.Put(r.Key, q)
	}
	full := q.Records
	if q, err = h.giveUp(c, r.Key, old, has, q, 0); err == nil && q.Records == full {
		err = topology.Fail(topology.Validation, errFull) // the first of them stays
	}
	return err
}

// askFrom returns the first version that is missing before key and was not requested yet, if a
// record of a higher incarnation waits. The last waiting record of its own incarnation before key
// shows what was requested, unless the row has passed that record. The highest waiting incarnation
// saves this look for keys without higher incarnations.
func (h *handler[K, V, S]) askFrom(key parkedKey[K], expected int64) (int64, error) {
	b, err := h.parking.records.EncodeKey(key)
	if err != nil {
		return 0, err
	}
	waiting := state.Prefix(b[:len(b)-versionBytes])
	waiting.Reverse = true
	for pair, err := range h.parking.records.Scan(waiting) {
		return max(pair.Key.At.Version+1, expected), err
	}
	return expected, nil
}

// settle handles the records that have waited for the row's new version. It looks for passed
// records in two cases: a new incarnation begins, or no record ahead of the row can be left, so
// that all waiting records are passed. Rejected: to look for each record. A scan goes over the
// deletions of all earlier parked records of this key, sorts uncommitted rows, and drains the
// database's buffer.
func (h *handler[K, V, S]) settle(c *topology.Context, key K, old Row[S], has bool, row Row[S]) error {
	q, waits, err := h.parking.queues.Get(key)
	if err != nil || !waits {
		return err
	}
	if has && row.Incarnation == old.Incarnation {
		q, err = h.dropTwin(c, key, row, q)
	} else {
		q, err = h.dropPassed(c, key, row, q)
	}
	if err != nil {
		return err
	}
	if row, q, err = h.release(c, key, row, q); err != nil || q.Records == 0 {
		return err
	}
	if row.position().compare(q.Highest) < 0 {
		return nil // something waits for the row, or did: of that its limit takes care
	}
	left := q.Records
	if q, err = h.dropPassed(c, key, row, q); err != nil || q.Records == left {
		return err
	}
	return h.waitAnew(c, key, q)
}

// release applies the records that have waited for row, in the order of their versions, and stores
// the queue, whose waiting time starts again. It returns the new row and queue.
func (h *handler[K, V, S]) release(c *topology.Context, key K, row Row[S], q queue) (Row[S], queue, error) {
	for q.Records > 0 && row.Version < math.MaxInt64 {
		next := parkedKey[K]{Key: key, At: position{row.Incarnation, row.Version + 1}}
		p, found, err := h.parking.records.Get(next)
		if err != nil {
			return row, q, err
		}
		if !found {
			break
		}
		moved, f, err := h.applyParked(c, next, p, row, true)
		if err != nil {
			return row, q, err
		}
		if f != stays {
			q.Records--
		}
		if f != applied {
			break // its version is missing again, or it waits on
		}
		row = moved
	}
	return row, q, h.waitAnew(c, key, q)
}

// waitAnew stores the queue as one whose wait begins now, if anything waits.
func (h *handler[K, V, S]) waitAnew(c *topology.Context, key K, q queue) error {
	if q.Records == 0 {
		return h.parking.queues.Delete(key)
	}
	q.Clock = 0
	if now := c.StreamTime(); now != state.NoTime {
		q.Since = now
	}
	return h.parking.queues.Put(key, q)
}

// waitingOf returns the ranges of the records of key that wait: of those that its row has passed,
// if it has one, and of those ahead of it.
func (h *handler[K, V, S]) waitingOf(key K, row Row[S], has bool) (passed, ahead state.Range, err error) {
	b, err := h.parking.records.EncodeKey(parkedKey[K]{Key: key, At: row.position()})
	if err != nil {
		return passed, ahead, err
	}
	ahead = state.Prefix(b[: len(b)-positionBytes : len(b)-positionBytes])
	if !has {
		return state.Range{From: ahead.From, To: ahead.From}, ahead, nil
	}
	passed = state.Range{From: ahead.From, To: append(b, 0)} // the position of row is one of them
	ahead.From = passed.To
	return passed, ahead, nil
}

// fate is what has become of a record that waited.
type fate uint8

const (
	// applied: it was released, and the row is its own.
	applied fate = iota + 1
	// gone: it is not kept any more, and Stale or Abandoned has it.
	gone
	// stays: it waits on, because all that could take it has refused it. The turn of its key ends
	// there.
	stays
)

// applyParked takes a record out of the queue and applies it. If fold or a node behind the
// projection refuses it, it is abandoned, because the record at work did not cause the failure. The
// row is then read again from the store, because fold may have changed old.
func (h *handler[K, V, S]) applyParked(
	c *topology.Context, key parkedKey[K], p parked[V], old Row[S], has bool,
) (row Row[S], f fate, err error) {
	expected := h.expected(key.At, old, has)
	err = h.resume(c, key.Key, p, func(r topology.Record[K, V]) error {
		refused, err := c.Try(func() error {
			if err := h.parking.records.Delete(key); err != nil {
				return err
			}
			var err error
			if row, err = h.nextRow(r, old, has, key.At); err != nil {
				return err
			}
			h.parking.releasedCounter.Inc()
			return h.write(c, r, old, has, row, expected)
		})
		if err != nil || refused == nil {
			f = applied
			return err
		}
		if f, err = h.refused(c, r, old, has, key, expected, refused); err == nil {
			row, _, err = h.row(key.Key)
		}
		return err
	})
	return row, f, err
}

// refused decides about a record that was refused on its release.
func (h *handler[K, V, S]) refused(
	c *topology.Context, r topology.Record[K, V], row Row[S], has bool, key parkedKey[K], expected int64, why *topology.Failure,
) (fate, error) {
	if why.Again {
		h.parking.stayedCounter.Inc()
		return stays, nil
	}
	return h.abandon(c, r, row, has, key, expected, Failed, h.message(why))
}

// message says why a record was refused, and where that was not here, by which node.
func (h *handler[K, V, S]) message(refused *topology.Failure) string {
	message := refused.Class.String() + ": " + refused.Reason()
	if refused.Node != h.store {
		message = "node " + refused.Node + ": " + message
	}
	return message
}

// dropPassed drops the records that have waited for row or for an earlier version. These are
// records of earlier incarnations, and records that could be neither applied nor abandoned and of
// which a copy has come since. It ends at the first record that stays, which is the first one of
// the next run too. Otherwise each run would try all waiting records while their target is down.
func (h *handler[K, V, S]) dropPassed(c *topology.Context, key K, row Row[S], q queue) (queue, error) {
	passed, _, err := h.waitingOf(key, row, true)
	if err != nil {
		return q, err
	}
	for pair, err := range h.parking.records.Scan(passed) {
		if err != nil {
			return q, err
		}
		f, err := h.drop(c, pair.Key, pair.Value, row)
		if err != nil || f == stays {
			return q, err
		}
		q.Records--
	}
	return q, nil
}

// dropTwin drops the record that waits under the version of row: it could neither be applied nor be
// abandoned, and a copy of it has come since.
func (h *handler[K, V, S]) dropTwin(c *topology.Context, key K, row Row[S], q queue) (queue, error) {
	twin := parkedKey[K]{Key: key, At: row.position()}
	p, found, err := h.parking.records.Get(twin)
	if err != nil || !found {
		return q, err
	}
	f, err := h.drop(c, twin, p, row)
	if err == nil && f != stays {
		q.Records--
	}
	return q, err
}

// drop takes a record out of the queue that has no effect any more. It is abandoned if Stale does
// not take it.
func (h *handler[K, V, S]) drop(c *topology.Context, key parkedKey[K], p parked[V], row Row[S]) (f fate, err error) {
	outcome := Stale
	if key.At == row.position() {
		outcome = Duplicate
	}
	err = h.resume(c, key.Key, p, func(r topology.Record[K, V]) error {
		refused, err := c.Try(func() error {
			if err := h.parking.records.Delete(key); err != nil {
				return err
			}
			return h.skipped(c, r, outcome, key.At, row, true)
		})
		if err != nil || refused == nil {
			f = gone
			return err
		}
		f, err = h.refused(c, r, row, true, key, key.At.Version, refused)
		return err
	})
	return f, err
}

// abandon takes a record out of the queue and hands it over. If that is refused too it stays in the
// queue, because it is nowhere else: neither the record at work nor a clock is to blame for it.
func (h *handler[K, V, S]) abandon(
	c *topology.Context, r topology.Record[K, V], row Row[S], has bool, key parkedKey[K], expected int64,
	reason Reason, message string,
) (fate, error) {
	refused, err := c.Try(func() error {
		if err := h.parking.records.Delete(key); err != nil {
			return err
		}
		h.parking.abandonedCounter.Inc()
		if err := h.decide(c, r, "abandoned", reason.String()+": "+message, key.At.Version, row, has, row, has); err != nil {
			return err
		}
		return h.parking.abandon(c, topology.WithValue(r, Abandoned[V]{
			Reason: reason, Message: message, Incarnation: key.At.Incarnation, Expected: expected, Actual: key.At.Version,
			Value: r.Value,
		}))
	})
	switch {
	case err != nil:
		return 0, err
	case refused != nil:
		h.parking.stayedCounter.Inc()
		return stays, nil //nolint:nilerr // it is not lost: the record waits on, and the counter says it
	}
	return gone, nil
}

// giveUp does what the limits say is to follow, up to a record that stays, and returns the queue as
// it has stored it. One that the row has passed has no effect any more, so that nothing waits for
// it where it stays.
func (h *handler[K, V, S]) giveUp(
	c *topology.Context, key K, old Row[S], has bool, q queue, reason Reason,
) (queue, error) {
	if has {
		var err error
		if q, err = h.dropPassed(c, key, old, q); err != nil {
			return q, err
		}
	}
	_, ahead, err := h.waitingOf(key, old, has)
	if err != nil {
		return q, err
	}
	for pair, err := range h.parking.records.Scan(ahead) {
		if err != nil {
			return q, err
		}
		row, f, err := h.giveUpOne(c, pair.Key, pair.Value, old, has, reason)
		if err != nil {
			return q, err
		}
		if f == stays {
			break
		}
		q.Records--
		if f == applied {
			_, q, err = h.release(c, key, row, q)
			return q, err
		}
		old = row
	}
	return q, h.waitAnew(c, key, q)
}

// giveUpOne applies a record that waits as if no version were missing before it, or abandons it.
// One before which none is missing has been refused when its turn came, and has its turn now.
func (h *handler[K, V, S]) giveUpOne(
	c *topology.Context, key parkedKey[K], p parked[V], old Row[S], has bool, reason Reason,
) (row Row[S], f fate, err error) {
	expected := h.expected(key.At, old, has)
	if h.parking.limits.Then == AcceptLatest || key.At.Version == expected {
		return h.applyParked(c, key, p, old, has)
	}
	err = h.resume(c, key.Key, p, func(r topology.Record[K, V]) error {
		var err error
		f, err = h.abandon(c, r, old, has, key, expected, reason, string(errGap))
		return err
	})
	return old, f, err
}

const errFull = schemas.Reason("versions are missing before the one of the record, and as many records of its " +
	"key wait for them as may")
