// Package health tells whether the loops of a process come round.
//
// # Contract
//
// A [Loop] is one goroutine that works and waits in turns. Its owner says when a turn begins and
// when it waits; anybody may ask how long the current turn has taken. Waiting is healthy however
// long it lasts: an idle input is no illness, and neither is a cluster that is away, because a
// restart would not bring it back. A turn that does not end is one: a handler that hangs, a lock
// that is never given back, a disk that does not answer.
//
// # Concurrency
//
// A Loop has one owner, which calls Began and Waits; the other methods may be called from any
// goroutine. Nothing here blocks.
//
// # What it is not
//
// It ends nothing and restarts nothing. Whoever asks decides.
package health

import (
	"sync/atomic"
	"time"
)

// Loop is one goroutine's progress. The zero value waits.
type Loop struct {
	// Name says which loop it is. It is set before the loop is shared.
	Name string
	// began is when the current turn began, in Unix nanoseconds; 0 while the loop waits.
	began atomic.Int64
}

// Began says that a turn begins, or that the one at work has got on.
func (l *Loop) Began(now time.Time) { l.began.Store(now.UnixNano()) }

// Waits says that the turn is over and that the loop waits for something to do.
func (l *Loop) Waits() { l.began.Store(0) }

// Busy returns how long the loop has not got on, 0 while it waits.
func (l *Loop) Busy(now time.Time) time.Duration {
	began := l.began.Load()
	if began == 0 {
		return 0
	}
	return max(now.Sub(time.Unix(0, began)), 0)
}

// Stuck is a loop that does not come round.
type Stuck struct {
	Loop string  `json:"loop"`
	Busy float64 `json:"busy_seconds"`
}

// Check returns the loops whose turn has taken longer than bound, in the order given.
func Check(loops []*Loop, now time.Time, bound time.Duration) []Stuck {
	var stuck []Stuck
	for _, l := range loops {
		if busy := l.Busy(now); busy > bound {
			stuck = append(stuck, Stuck{Loop: l.Name, Busy: busy.Seconds()})
		}
	}
	return stuck
}
