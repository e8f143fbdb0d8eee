package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Handler has the effect of an entry in the transaction tx, in which the entry is settled. It may
// be called by several goroutines at once, cannot commit or roll back, and is called again if the
// transaction does not commit. Its context ends shortly before the claim expires.
type Handler func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error)

// Decision is what a handler has decided. The zero Decision is Processed.
type Decision struct {
	// Status is Processed, Duplicate, Ignored or Superseded.
	Status Status
	// Reason is for people, and stored. It quotes nothing of the payload.
	Reason string
}

// DefaultRetention is how long settled entries are kept without [Config.Retention].
const DefaultRetention = 180 * 24 * time.Hour

// Config is what a queue is made of. Name and Pool are required, and Handle for [Queue.Run].
type Config struct {
	// Name is the key of the queue's entries: 1 to 200 bytes.
	Name string
	// Pool has connections for Parallel transactions, and two more.
	Pool   *pgxpool.Pool
	Handle Handler

	// Parallel is how many entries are at work in this process at most, 4 by default. No more than
	// that are claimed at a time.
	Parallel int
	// ClaimFor is how long a claim lasts, a minute by default. A handler that takes longer has no
	// effect.
	ClaimFor time.Duration
	// Attempts is how often an entry is tried that fails with class transient or overload, or whose
	// claim expires, 10 by default. Then it is quarantined.
	Attempts int
	// RetryMin and RetryMax bound the pause before an entry is tried again, which doubles with each
	// attempt. A second and 5 minutes by default.
	RetryMin, RetryMax time.Duration
	// Poll is how often workers look for entries without a notification, 1 s by default.
	Poll time.Duration

	// Retention is how long [Queue.Clean] keeps settled entries, and so how long a copy is known to
	// be one: 180 days by default.
	Retention time.Duration
	// PayloadRetention is how long it keeps their payloads and headers, a week by default.
	PayloadRetention time.Duration
	// ReplayWindow is after how long a copy of an event can still come. New refuses a shorter
	// Retention. Zero states nothing.
	ReplayWindow time.Duration

	// Logger says what is retried, quarantined and given up, without a byte of a payload. None by
	// default.
	Logger *slog.Logger
	// Metrics registers the queue's metrics, whose names begin with onceward_postgres_queue_. None
	// by default.
	Metrics prometheus.Registerer
}

// withDefaults returns the configuration as it works, and all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" || !storable(c.Name, nameBytesMax) {
		mistake("Name is valid UTF-8 of 1 to %d bytes without zero bytes, not %q", nameBytesMax, c.Name)
	}
	if c.Pool == nil {
		errs = append(errs, errors.New("Pool is nil"))
	}
	number := func(name string, n *int, byDefault int) {
		if *n < 0 {
			mistake("%s is 1 or more, not %d", name, *n)
		}
		if *n == 0 {
			*n = byDefault
		}
	}
	number("Parallel", &c.Parallel, 4)
	number("Attempts", &c.Attempts, 10)
	duration := func(name string, d *time.Duration, byDefault time.Duration) {
		if *d == 0 {
			*d = byDefault
		}
		if *d < time.Millisecond {
			mistake("%s is 1ms or more, not %s", name, *d)
		}
	}
	duration("ClaimFor", &c.ClaimFor, time.Minute)
	duration("RetryMin", &c.RetryMin, time.Second)
	duration("RetryMax", &c.RetryMax, max(c.RetryMin, 5*time.Minute))
	duration("Poll", &c.Poll, time.Second)
	duration("Retention", &c.Retention, DefaultRetention)
	duration("PayloadRetention", &c.PayloadRetention, min(c.Retention, 7*24*time.Hour))
	if c.RetryMax < c.RetryMin {
		mistake("RetryMax %s is less than RetryMin %s", c.RetryMax, c.RetryMin)
	}
	if c.Retention < c.ReplayWindow {
		mistake("Retention %s is shorter than ReplayWindow %s: an event that comes again after its entry was removed would have its effect again; "+
			"keep entries for %[2]s at least", c.Retention, c.ReplayWindow)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("queue", c.Name)
	return c, errors.Join(errs...)
}
