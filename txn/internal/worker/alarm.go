package worker

import (
	"sync/atomic"
	"time"
)

// alarm tells that a time has passed without a look at the clock, which is more than a twentieth of
// what a record takes where little is done for it. While all processors are busy it may be late by
// what the scheduler lets a goroutine run, which is 10 ms.
type alarm struct {
	timer *time.Timer
	rings atomic.Bool
}

// set begins the time. It is for one goroutine, as stop is.
func (a *alarm) set(d time.Duration) {
	a.rings.Store(false)
	if a.timer == nil {
		a.timer = time.AfterFunc(d, func() { a.rings.Store(true) })
		return
	}
	a.timer.Reset(d)
}

// stop ends it. One that is about to ring may do so all the same, and end the next time too early.
func (a *alarm) stop() { a.timer.Stop() }

// rang reports whether the time is over.
func (a *alarm) rang() bool { return a.rings.Load() }
