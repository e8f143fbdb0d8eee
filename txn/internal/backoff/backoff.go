// Package backoff is the pause between two tries: short at first, twice as long each time, up to a
// bound. It ends early with its context.
//
// What is tried, which failures are final and what is said meanwhile differ from place to place and
// stay there.
package backoff

import (
	"context"
	"time"
)

// Backoff is a pause that grows. It belongs to one goroutine.
type Backoff struct {
	// Next is how long the next Wait takes; it may be set again to begin anew.
	Next time.Duration
	// Max bounds Next.
	Max time.Duration
}

// Wait pauses, and doubles the next pause. It returns ctx's error if that ends first.
func (b *Backoff) Wait(ctx context.Context) error {
	err := Sleep(ctx, b.Next)
	b.Next = min(2*b.Next, b.Max)
	return err
}

// Sleep returns after d, or with ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
