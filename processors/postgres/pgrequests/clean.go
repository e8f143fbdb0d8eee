package pgrequests

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// cleanRows is how many rows one transaction of Clean changes: little enough to be short, and for
// others not to wait.
const cleanRows = 1000

// The steps of Clean. Each one has the rows that it changes by primary key, and skips those that
// others are changing.
const (
	rowsWhere = `
WITH old AS (
	SELECT service, tenant, client, operation, resource, key FROM onceward.requests
	WHERE service = $1 AND `
	rowsLimit = ` LIMIT $2 FOR UPDATE SKIP LOCKED
), changed AS (`
	ofOld = ` WHERE r.service = old.service AND r.tenant = old.tenant AND r.client = old.client AND r.operation = old.operation
		AND r.resource = old.resource AND r.key = old.key RETURNING 1
) SELECT count(*) FROM changed`

	expireLocks = rowsWhere + `status = 'STARTED' AND external AND locked_until < clock_timestamp() ORDER BY locked_until` + rowsLimit + `
	UPDATE onceward.requests r SET status = 'UNKNOWN', locked_until = NULL FROM old` + ofOld

	expireAnswers = rowsWhere + `expires_at < now() ORDER BY expires_at` + rowsLimit + `
	UPDATE onceward.requests r SET expires_at = NULL, response_header_names = NULL, response_header_values = NULL, response_body = NULL FROM old` + ofOld

	// An answer expires before its row.
	expireRows = rowsWhere + `started_at < now() - $3::interval AND expires_at IS NULL
		AND (status NOT IN ('STARTED', 'UNKNOWN') OR status = 'STARTED' AND NOT external AND locked_until < clock_timestamp())
	ORDER BY started_at` + rowsLimit + `
	DELETE FROM onceward.requests r USING old` + ofOld
)

// Clean gives the status UNKNOWN to external attempts whose lock has expired. It removes answers
// whose time to live is over, and rows whose audit retention is over. Clean changes at most limit
// rows, the oldest of each kind first, in transactions of at most 1000. It returns how many it has
// changed, also with an error; fewer than limit says that nothing is left to do. Call it every now
// and then, from as many instances as you like: none waits for another, or holds up a request.
func (s *Store) Clean(ctx context.Context, limit int) (changed int, err error) {
	if limit < 1 {
		return 0, s.failed("clean", errors.New("the limit is 1 or more"))
	}
	for _, step := range []struct {
		sql     string
		args    []any
		counter prometheus.Counter
	}{
		{expireLocks, nil, s.ended[StatusUnknown]},
		{expireAnswers, nil, s.answersCleaned},
		{expireRows, []any{s.audit}, s.rowsCleaned},
	} {
		for changed < limit {
			rows, n := min(cleanRows, limit-changed), 0
			if err := s.pool.QueryRow(ctx, step.sql, append([]any{s.service, rows}, step.args...)...).Scan(&n); err != nil {
				return changed, s.failed("clean", work.Failed("change what is old", err))
			}
			changed += n
			step.counter.Add(float64(n))
			if n < rows {
				break
			}
		}
	}
	return changed, nil
}
