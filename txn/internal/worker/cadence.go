package worker

import "time"

// Cadence says when a round commits.
type Cadence struct {
	// IntervalMin is the least time between two commits of an idle worker.
	IntervalMin time.Duration
	// IntervalMax is the most that a record waits for its round to be sealed.
	IntervalMax time.Duration
	// BytesMax bounds a round's output, and separately its state writes.
	BytesMax int64
	// HeldBytesMax bounds the input of a round that sends nothing: it is not held back any longer,
	// because its journal takes the room that new input needs. It is asked for each time, because
	// that room changes with the assignment, and must not block.
	HeldBytesMax func() int64
	// EmptyMax is how long a round that would send no record is held back; EmptyMaxDefault is what
	// it should be.
	EmptyMax time.Duration
}

// EmptyMaxDefault bounds how much is read again after a crash where input leads to no output, and
// is long enough that the filler records do not count.
const EmptyMaxDefault = 10 * time.Second

// streamBytes is how much output a round keeps before it is sent ahead of the commit. Below it a
// transaction is open for about a millisecond: an open one holds the last stable offset, and with
// it everybody's latency.
const streamBytes = 256 << 10

// cadence measures what the decisions need.
type cadence struct {
	Cadence
	lastSeal time.Time
	smoothed time.Duration
	// streamEarly is set when the last round ended by bytes: the next one will be large too.
	streamEarly bool
}

// dueIn returns how long the round may still wait, zero or less when it is due. idle says that
// there is nothing more to process.
func (c *cadence) dueIn(now time.Time, r *round, idle bool, budget *Budget) time.Duration {
	if r.held < c.HeldBytesMax() && (!r.worked || !r.sends()) {
		return r.started.Add(c.EmptyMax).Sub(now)
	}
	latest := r.started.Add(c.IntervalMax).Sub(now)
	if !idle {
		return latest
	}
	soonest := c.lastSeal.Add(max(c.IntervalMin, c.smoothed)).Sub(now)
	if soonest <= 0 {
		soonest = budget.freeAt(now).Sub(now)
	}
	return min(latest, soonest)
}

// streamAt is how much output waits before it is sent ahead of the commit. After a round that ended
// by bytes, the next one is taken to be large too and need not be kept together.
func (c *cadence) streamAt() int64 {
	if c.streamEarly {
		return streamBytes / 8
	}
	return streamBytes
}

func (c *cadence) sealed(now time.Time, r *round) {
	c.lastSeal, c.streamEarly = now, r.full
}

// committed smooths the time from seal to applied exponentially. One slow commit, as the very first
// of a producer is, says nothing of the next: it counts as twice what was expected.
func (c *cadence) committed(took time.Duration) {
	took = min(took, c.IntervalMin+2*c.smoothed)
	c.smoothed += (took - c.smoothed) / 8
}
