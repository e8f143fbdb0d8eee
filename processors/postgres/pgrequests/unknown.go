package pgrequests

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// listUnknown reads the requests whose outcome is unknown, whether Clean has found them yet or not.
const listUnknown = `
SELECT tenant, client, operation, resource, key, attempt, external, holder, created_at, started_at, locked_until, ended_at, response_status FROM (
	(SELECT * FROM onceward.requests WHERE service = $1 AND status = 'UNKNOWN' ORDER BY started_at LIMIT $2)
	UNION ALL
	(SELECT * FROM onceward.requests WHERE service = $1 AND status = 'STARTED' AND external AND locked_until <= clock_timestamp()
		ORDER BY locked_until LIMIT $2)
) AS r ORDER BY started_at LIMIT $2`

// Unknown returns requests whose outcome is unknown, at most limit of them, the oldest attempts
// first. An operator finds out what became of each one, and ends it with its claim:
// [Store.Complete], or [Store.Fail].
func (s *Store) Unknown(ctx context.Context, limit int) ([]Entry, error) {
	if limit < 1 {
		return nil, s.failed("list", errors.New("the limit is 1 or more"))
	}
	rows, err := s.pool.Query(ctx, listUnknown, s.service, limit)
	if err == nil {
		var all []Entry
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Entry, error) {
			e := Entry{Status: StatusUnknown}
			var locked, ended *time.Time
			var code *int
			c := &e.Claim.Scope
			err := row.Scan(&c.Tenant, &c.Client, &c.Operation, &c.Resource, &c.Key, &e.Claim.Attempt, &e.External, &e.Holder,
				&e.CreatedAt, &e.StartedAt, &locked, &ended, &code)
			e.LockedUntil, e.EndedAt, e.Response = timeOf(locked), timeOf(ended), responseOf(code, nil, nil, nil)
			return e, err
		})
		if err == nil {
			return all, nil
		}
	}
	return nil, s.failed("list", work.Failed("read requests", err))
}

// timeOf returns the time of a column, zero for null.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
