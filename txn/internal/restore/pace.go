package restore

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// pace bounds how many bytes a second are read. How large an answer is shows only when it is there,
// so each fetch waits for the bytes of those before it. A nil pace has no bound. It is safe for
// concurrent use.
type pace struct{ limiter *rate.Limiter }

// newPace returns nil for zero.
func newPace(bytesPerSecond int64) *pace {
	if bytesPerSecond <= 0 {
		return nil
	}
	return &pace{rate.NewLimiter(rate.Limit(bytesPerSecond), fetchBytes)}
}

// owes reports whether wait would wait.
func (p *pace) owes() bool { return p != nil && p.limiter.Tokens() < 1 }

// wait returns once the bytes that were taken are paid for by time.
func (p *pace) wait(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.limiter.WaitN(ctx, 1)
}

// took notes bytes that were read. It does not wait.
func (p *pace) took(bytes int) {
	for now := time.Now(); p != nil && bytes > 0; bytes -= fetchBytes {
		p.limiter.ReserveN(now, min(bytes, fetchBytes)) // more at once would be refused
	}
}
