package assign

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/onceward/onceward/topology/graph"
)

// Reason is why a rebalance is forced.
type Reason string

// The reasons.
const (
	// Described: the plan describes this member otherwise than it is.
	Described Reason = "the plan describes this instance otherwise than it is"
	// Working: the plan leaves tasks of this member out, as stopped ones, and they are not stopped
	// any more.
	Working Reason = "tasks of this instance that were stopped work again"
	// PendingMoves: this member leads, and moves are pending for longer than a revoke can take.
	PendingMoves Reason = "moves are pending although every revoke must be over"
	// Gone: an instance of the plan is gone, and its member was removed from the group. The
	// rebalance has begun. Unless it is forced, this member hears of it with its next heartbeat.
	Gone Reason = "an instance is gone and its member was removed"
	// Over: a member says that its part of the plan is done. It has left the group, and the rebalance
	// has begun, as for Gone. Or it has given up what moves to others. Then it joins again too, and the
	// first member that joins begins the rebalance.
	Over Reason = "an instance has given up tasks that move, or has left"
	// Warm: the plan waits for copies of this member, and they are warm.
	Warm Reason = "the plan waits for copies of this instance that are warm"
)

const (
	// describedEvery is the least time between two rebalances that a member forces because of
	// itself.
	describedEvery = 30 * time.Second
	// workingFor is how long a plan has to be known before its stopped tasks are taken for working
	// ones. Most of the tasks that will stop again after they are opened have stopped by then.
	workingFor   = 30 * time.Second
	pendingFirst = 10 * time.Second
	pendingMost  = 5 * time.Minute
)

// Forcing decides when this member forces a rebalance. It has no clock: callers pass the time. It
// belongs to the process, not to a membership, so that the counts continue in a new membership. It
// is not safe for concurrent use.
//
// A member does so for itself at most once for each value of its own entry. Else two versions of
// which one cannot read the other would rebalance for ever. For the number of its stopped tasks
// that means: once, until it falls further or a plan has had it right.
type Forcing struct {
	own       Entry
	revokeMax time.Duration

	planned bool
	plan    Plan
	leader  bool
	since   time.Time // the plan is known since
	gone    bool      // a member of the plan was removed
	over    bool      // a member has done its part of the plan
	heard   bool      // that a member has done its part of the plan, whether it counts or not
	early   uint64    // the plan that was last said to be over while this member was joining
	joining bool      // the next plan is on its way
	removed []string  // instances whose members were removed while this member was joining

	forcedFor     Entry // the own entry that a rebalance was forced for
	describedAt   time.Time
	stopped       int32 // tasks that are stopped now
	stoppedSaid   int32 // how many were when a rebalance was forced because of them; stoppedUnsaid if none was since a plan had it right
	pendingAt     time.Time
	pendingForced int // rebalances forced in a row while moves were pending

	warm       map[graph.TaskID]bool // copies of this member that are warm
	warmFor    map[graph.TaskID]bool // tasks that a rebalance was forced for, and that wait still
	warmAt     time.Time
	warmForced int // rebalances forced in a row for the same tasks
	warmSome   int // rebalances forced in a row for some of the copies that are awaited
}

// NewForcing returns the policy of the member that own describes. A revoke takes at most revokeMax.
func NewForcing(own Entry, revokeMax time.Duration) *Forcing {
	return &Forcing{own: own, revokeMax: revokeMax, stoppedSaid: stoppedUnsaid}
}

// stoppedUnsaid is more than any number of stopped tasks.
const stoppedUnsaid = math.MaxInt32

// Stopped takes how many of the member's tasks are stopped now. It is to be told before Planned,
// and before Due.
func (f *Forcing) Stopped(n int32) {
	f.stopped = n
	f.stoppedRight()
}

// stoppedRight notes that the plan leaves out no task that works, so that the next time is a new
// one.
func (f *Forcing) stoppedRight() {
	if e, ok := f.entry(); ok && e.Stopped <= f.stopped {
		f.stoppedSaid = stoppedUnsaid
	}
}

// Planned takes the plan of a new assignment, and whether this member leads the group. A plan that
// could not be read is a zero one.
func (f *Forcing) Planned(now time.Time, p Plan, leader bool) {
	if !f.planned || p.ID != f.plan.ID || leader && !f.leader {
		f.since = now
	}
	f.planned, f.plan, f.leader, f.gone, f.over, f.heard, f.joining = true, p, leader, false, false, false, false
	removed, early := f.removed, f.early
	f.removed, f.early = nil, 0
	for _, instance := range removed {
		f.Gone(instance)
	}
	f.Over(early)
	if len(p.Pending) == 0 {
		f.pendingForced = 0
	}
	waiting, _, _ := f.waiting()
	maps.DeleteFunc(f.warmFor, func(id graph.TaskID, _ bool) bool { _, waits := waiting[id]; return !waits })
	if len(f.warmFor) == 0 {
		f.warmForced = 0
	}
	if len(waiting) == 0 {
		f.warmSome = 0
	}
	f.stoppedRight()
}

// Warm takes the tasks of which this member has a warm copy. It is to be told before Due.
func (f *Forcing) Warm(tasks []graph.TaskID) {
	f.warm = map[graph.TaskID]bool{}
	for _, id := range tasks {
		f.warm[id] = true
	}
}

// waiting returns the tasks of this member's copies that the plan waits for, and how many of the
// copies are warm; fresh says that no rebalance was forced yet for one of these.
func (f *Forcing) waiting() (tasks map[graph.TaskID]bool, warm int, fresh bool) {
	tasks = map[graph.TaskID]bool{}
	for _, c := range f.plan.CopiesOf(f.own.Member) {
		pending := slices.ContainsFunc(f.plan.Pending, func(m Move) bool { return m.Task == c.Task })
		if !c.Awaited || pending { // what is pending comes when its holder has given it up
			continue
		}
		tasks[c.Task] = f.warm[c.Task]
		if f.warm[c.Task] {
			warm++
			fresh = fresh || !f.warmFor[c.Task]
		}
	}
	return tasks, warm, fresh
}

// dueWarm is Due for the reason Warm.
func (f *Forcing) dueWarm() (at time.Time, ok bool) {
	tasks, warm, fresh := f.waiting()
	switch {
	case warm == 0:
		return time.Time{}, false
	case !fresh:
		return later(f.since, f.warmAt).Add(backoff(f.warmForced)), true
	case warm == len(tasks):
		return f.since, true
	}
	return later(f.since, f.warmAt).Add(backoff(f.warmSome)), true
}

// Joining says that this member joins the group. Nothing is due until the next plan. A rebalance
// that is forced meanwhile would begin when this one ends: the client keeps the request until then.
func (f *Forcing) Joining() { f.joining = true }

// Left says that there is no membership, so there is nothing to force until the next plan.
func (f *Forcing) Left() {
	f.planned, f.plan, f.gone, f.over, f.heard, f.early, f.joining, f.removed = false, Plan{}, false, false, false, 0, false, nil
}

// Gone says that an instance is gone and that its member was removed. It does nothing if the plan
// does not have the instance. While this member is joining, that is the next plan: the member may
// have been removed before or after that plan was made.
func (f *Forcing) Gone(instance string) {
	if f.joining {
		f.removed = append(f.removed, instance)
		return
	}
	if slices.ContainsFunc(f.plan.Entries, func(e Entry) bool { return e.Member == instance }) {
		f.gone = true
	}
}

// Over says that a member has done its part of a plan. It counts once for each plan: the rebalance
// that is forced then is for all members. It does nothing if this member has another plan, or gives up
// tasks itself: it joins as soon as it has done so. While this member is joining, it is kept for the
// next plan, which the other member can have first.
//
// It returns true when it is said of this member's plan for the first time. Then there can be members
// that have not heard it.
func (f *Forcing) Over(plan uint64) (first bool) {
	if f.joining {
		f.early = plan
	}
	if !f.planned || plan == 0 || plan != f.plan.ID || f.heard {
		return false
	}
	gives := slices.ContainsFunc(f.plan.Pending, func(m Move) bool { return m.From == f.own.Member })
	f.heard, f.over = true, !f.joining && !gives
	return true
}

// Due returns when a rebalance is to be forced, unless a new plan comes first or more tasks stop,
// and why; ok is false if none is.
func (f *Forcing) Due() (at time.Time, why Reason, ok bool) {
	if !f.planned || f.joining {
		return time.Time{}, "", false
	}
	if f.gone {
		return f.since, Gone, true
	}
	if f.over {
		return f.since, Over, true
	}
	if f.misdescribed() && f.forcedFor != f.own {
		at, why, ok = later(f.since, f.describedAt.Add(describedEvery)), Described, true
	}
	if e, _ := f.entry(); e.Stopped > f.stopped && f.stopped < f.stoppedSaid && !ok {
		at, why, ok = later(f.since.Add(workingFor), f.describedAt.Add(describedEvery)), Working, true
	}
	if f.leader && len(f.plan.Pending) > 0 {
		pending := later(later(f.since, f.pendingAt).Add(backoff(f.pendingForced)), f.since.Add(f.revokeMax))
		if !ok || pending.Before(at) {
			at, why, ok = pending, PendingMoves, true
		}
	}
	if warm, due := f.dueWarm(); due && (!ok || warm.Before(at)) {
		at, why, ok = warm, Warm, true
	}
	return at, why, ok
}

// Forced says that a rebalance was forced for the reason that Due gave.
func (f *Forcing) Forced(now time.Time, why Reason) {
	switch why {
	case Described:
		f.forcedFor, f.describedAt = f.own, now
	case Working:
		f.stoppedSaid, f.describedAt = f.stopped, now
	case PendingMoves:
		f.pendingAt = now
		f.pendingForced++
	case Gone, Over: // one rebalance is for both
		f.gone, f.over = false, false
	case Warm:
		f.warmAt = now
		f.warmForced++
		tasks, warm, _ := f.waiting()
		if warm < len(tasks) {
			f.warmSome++
		}
		maps.DeleteFunc(tasks, func(_ graph.TaskID, warm bool) bool { return !warm })
		f.warmFor = tasks
	}
}

// entry returns what the plan says of this member.
func (f *Forcing) entry() (Entry, bool) {
	i := slices.IndexFunc(f.plan.Entries, func(e Entry) bool { return e.Member == f.own.Member })
	if i < 0 {
		return Entry{}, false
	}
	return f.plan.Entries[i], true
}

func (f *Forcing) misdescribed() bool {
	e, ok := f.entry()
	return !ok || e.Fingerprint != f.own.Fingerprint || e.Subscription != f.own.Subscription ||
		e.Standbys != f.own.Standbys || e.Rack != f.own.Rack
}

// backoff is the pause before a rebalance is forced once more, after so many for the same reason.
func backoff(forced int) time.Duration {
	d := pendingFirst
	for range forced {
		if d *= 2; d >= pendingMost {
			return pendingMost
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
