package worker

import (
	"sync"
	"time"
)

// Budget bounds the transaction markers that the workers of a process cause per second (protocol
// rule 10.2). Every transaction leaves one marker in each partition that it touches, and a
// compacted topic keeps it for delete.retention.ms: committing whenever there is nothing to do is
// what makes latency low, and a great many small transactions what makes the cluster suffer.
//
// It stretches the interval of idle commits up to the maximum and never beyond: past it latency
// would suffer instead, so there is only the count of what was overspent. It is safe for concurrent
// use.
type Budget struct {
	perSecond float64
	// Overspent is told once, when the maximum interval is not long enough to keep the budget.
	overspent func()

	mu     sync.Mutex
	tokens float64
	filled time.Time
	told   bool
	spent  int64
}

// NewBudget returns a budget of markers per second, or none if it is 0 or less. overspent is called
// at most once.
func NewBudget(perSecond int, overspent func()) *Budget {
	return &Budget{perSecond: float64(perSecond), tokens: float64(perSecond), overspent: overspent}
}

// spend takes the markers of one transaction.
func (b *Budget) spend(now time.Time, markers int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += int64(markers)
	if b.perSecond <= 0 {
		return
	}
	b.fill(now)
	b.tokens -= float64(markers)
	if b.tokens < -b.perSecond {
		b.tokens = -b.perSecond // what cannot be kept is not carried on for ever
		if !b.told {
			b.told = true
			b.overspent()
		}
	}
}

// freeAt is when an idle worker may commit again.
func (b *Budget) freeAt(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.perSecond <= 0 {
		return now
	}
	b.fill(now)
	if b.tokens >= 0 {
		return now
	}
	return now.Add(time.Duration(-b.tokens / b.perSecond * float64(time.Second)))
}

// fill adds what the time since the last call has earned, up to one second's worth.
func (b *Budget) fill(now time.Time) {
	if !b.filled.IsZero() && now.After(b.filled) {
		b.tokens = min(b.tokens+now.Sub(b.filled).Seconds()*b.perSecond, b.perSecond)
	}
	if now.After(b.filled) {
		b.filled = now
	}
}

// Spent returns how many markers were caused since the budget was made.
func (b *Budget) Spent() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}
