// Package wake listens to notifications of PostgreSQL.
//
// A notification is a hint and never a fact: it can be lost with a connection, and comes for work
// that another process has already done. A process that is woken looks at the tables. It also polls
// them.
package wake

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// The pauses before a lost connection is made again.
const (
	pauseMin = 100 * time.Millisecond
	pauseMax = 30 * time.Second
)

// Notify is the statement that notifies listeners when its transaction commits: $1 is the channel,
// $2 the name.
const Notify = "SELECT pg_notify($1, $2)"

// Listen puts a token into wake for each notification of the channel that has the name, until the
// context ends. It does the same whenever it has a connection again, because notifications were
// lost before. It uses one connection of its own.
func Listen(ctx context.Context, pool *pgxpool.Pool, channel, name string, wake chan<- struct{}, log *slog.Logger) {
	for failures := 1; ; failures++ {
		err := listen(ctx, pool, channel, func(notified string) {
			failures = 0
			if notified != name && notified != "" {
				return
			}
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		if ctx.Err() != nil {
			return
		}
		log.Warn("notifications cannot be received; the tables are polled until they can", "reason", work.Reason(work.Failed("listen", err)))
		if !work.Wait(ctx, nil, work.Pause(max(failures, 1), pauseMin, pauseMax)) {
			return
		}
	}
}

// listen calls f with each notification, and with "" once it listens.
func listen(ctx context.Context, pool *pgxpool.Pool, channel string, f func(name string)) error {
	pooled, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := pooled.Hijack() // a listener would keep it for ever
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	f("")
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		f(n.Payload)
	}
}
