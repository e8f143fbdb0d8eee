package assign

import "time"

// Reason is why a rebalance is forced.
type Reason string

// The reasons.
const (
	// Described: the plan describes this member otherwise than it is.
	Described Reason = "the plan describes this instance otherwise than it is"
	// OwedMoves: this member leads, and moves are owed for longer than a revoke can take.
	OwedMoves Reason = "moves are owed although every revoke must be over"
)

const (
	// describedEvery is the least time between two rebalances that a member forces because of itself.
	describedEvery = 30 * time.Second
	owedFirst      = 10 * time.Second
	owedMost       = 5 * time.Minute
)

// Forcing decides when this member forces a rebalance. It has no clock: callers pass the time. It belongs to the process, not to a
// membership, so that a new membership does not begin to count anew. Not safe for concurrent use.
//
// A member does so for itself at most once for each value of its own entry. Else two versions of which one cannot read the other
// would rebalance for ever.
type Forcing struct {
	own       Entry
	revokeMax time.Duration

	planned bool
	plan    Plan
	leader  bool
	since   time.Time // the plan is known since

	forcedFor   Entry // the own entry that a rebalance was forced for
	describedAt time.Time
	owedAt      time.Time
	owedForced  int // rebalances forced in a row while moves were owed
}

// NewForcing returns the policy of the member that own describes. A revoke takes at most revokeMax.
func NewForcing(own Entry, revokeMax time.Duration) *Forcing {
	return &Forcing{own: own, revokeMax: revokeMax}
}

// Planned takes the plan of a new assignment, and whether this member leads the group. A plan that could not be read is a zero one.
func (f *Forcing) Planned(now time.Time, p Plan, leader bool) {
	if !f.planned || p.ID != f.plan.ID || leader && !f.leader {
		f.since = now
	}
	f.planned, f.plan, f.leader = true, p, leader
	if len(p.Owed) == 0 {
		f.owedForced = 0
	}
}

// Left says that there is no membership, so there is nothing to force until the next plan.
func (f *Forcing) Left() { f.planned, f.plan = false, Plan{} }

// Due returns when a rebalance is to be forced, unless a new plan comes first, and why; ok is false if none is.
func (f *Forcing) Due() (at time.Time, why Reason, ok bool) {
	if !f.planned {
		return time.Time{}, "", false
	}
	if f.misdescribed() && f.forcedFor != f.own {
		at, why, ok = later(f.since, f.describedAt.Add(describedEvery)), Described, true
	}
	if f.leader && len(f.plan.Owed) > 0 {
		owed := later(later(f.since, f.owedAt).Add(f.backoff()), f.since.Add(f.revokeMax))
		if !ok || owed.Before(at) {
			at, why, ok = owed, OwedMoves, true
		}
	}
	return at, why, ok
}

// Forced says that a rebalance was forced for the reason that Due gave.
func (f *Forcing) Forced(now time.Time, why Reason) {
	switch why {
	case Described:
		f.forcedFor, f.describedAt = f.own, now
	case OwedMoves:
		f.owedAt = now
		f.owedForced++
	}
}

func (f *Forcing) misdescribed() bool {
	for _, e := range f.plan.Entries {
		if e.Member == f.own.Member {
			return e != f.own
		}
	}
	return true
}

func (f *Forcing) backoff() time.Duration {
	d := owedFirst
	for range f.owedForced {
		if d *= 2; d >= owedMost {
			return owedMost
		}
	}
	return d
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
