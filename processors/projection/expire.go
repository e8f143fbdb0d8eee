package projection

import (
	"time"

	"github.com/onceward/onceward/topology"
)

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

// portion is what one look has given up so far. A look is one unit of work, and one transaction, so
// that it ends when that is enough.
type portion struct{ records, bytes int }

const (
	portionRecordsMax = 10_000
	portionBytesMax   = 16 << 20
)

func (p *portion) full() bool { return p.records >= portionRecordsMax || p.bytes >= portionBytesMax }

// resume calls f with a record as it came. In a look it counts.
func (h *handler[K, V, S]) resume(c *topology.Context, key K, p parked[V], f func(r topology.Record[K, V]) error) error {
	if h.parking.look != nil {
		if err := h.count(c, p); err != nil {
			return err
		}
	}
	return resume(c, key, p, f)
}

// count counts p in the look at work. If the codec of its value refuses it, its bytes do not count,
// and its target decides about it. An unknown size is no reason to fail, unless the policy of that
// class stops the task or tries again.
func (h *handler[K, V, S]) count(c *topology.Context, p parked[V]) error {
	look := h.parking.look
	look.records++
	_, err := c.Try(func() error {
		b, err := h.parking.codec.Append(nil, p)
		look.bytes += len(b)
		return err
	})
	return err
}

// expire ends the waiting of the keys for which due is true, in their order, as many as one look
// may. The others are due at the next look too, because their queues do not change. That follows
// from the state alone, as a replay needs it.
func (h *handler[K, V, S]) expire(
	c *topology.Context, reason Reason, due func(q *queue) (due, changed bool),
) error {
	look := &portion{}
	h.parking.look = look
	defer func() { h.parking.look = nil }()
	for pair, err := range h.parking.queues.All() {
		if err != nil {
			return err
		}
		if look.full() {
			return nil
		}
		over, changed := due(&pair.Value)
		switch {
		case over:
			err = h.expireKey(c, pair.Key, pair.Value, reason)
		case changed:
			look.records++
			err = h.parking.queues.Put(pair.Key, pair.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *handler[K, V, S]) expireKey(c *topology.Context, key K, q queue, reason Reason) error {
	old, has, err := h.row(key)
	if err == nil {
		_, err = h.giveUp(c, key, old, has, q, reason)
	}
	return err
}
