package pgqueue

import (
	"context"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// cleanRows is how many entries one transaction of Clean removes: little enough to be short, and
// for others not to wait.
const cleanRows = 1000

const deleteEntries = `
WITH old AS (
	SELECT entry FROM onceward.queue WHERE queue = $1 AND settled_at < now() - $2::interval ORDER BY settled_at LIMIT $3 FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM onceward.queue q USING old WHERE q.entry = old.entry RETURNING q.entry
), decisions AS (
	DELETE FROM onceward.queue_decisions d USING gone WHERE d.entry = gone.entry
)
SELECT count(*) FROM gone`

const dropPayloads = `
WITH old AS (
	SELECT entry FROM onceward.queue WHERE queue = $1 AND settled_at < now() - $2::interval AND payload IS NOT NULL
	ORDER BY settled_at LIMIT $3 FOR UPDATE SKIP LOCKED
), dropped AS (
	UPDATE onceward.queue q SET payload = NULL, header_keys = '{}', header_values = '{}' FROM old WHERE q.entry = old.entry RETURNING 1
)
SELECT count(*) FROM dropped`

// Clean removes settled entries whose retention is over, and the decisions on them, the oldest
// first and at most limit of them, in transactions of at most 1000. Of as many it drops the payload
// if that has a retention of its own that is over. It returns how many entries it has removed, also
// with an error; fewer than limit says that nothing is left to remove. Call it every now and then,
// from as many instances as you like.
//
// An entry that is not settled stays, also in quarantine.
func (q *Queue) Clean(ctx context.Context, limit int) (removed int, err error) {
	if limit < 1 {
		return 0, q.failed("clean", errLimit)
	}
	removed, err = q.inSteps(ctx, deleteEntries, q.config.Retention, limit)
	q.metrics.cleaned.Add(float64(removed))
	if err == nil {
		_, err = q.inSteps(ctx, dropPayloads, q.config.PayloadRetention, limit)
	}
	return removed, q.failed("clean", work.Failed("remove what is old", err))
}

// inSteps runs a statement until it has worked on limit rows, or finds no more.
func (q *Queue) inSteps(ctx context.Context, statement string, age any, limit int) (done int, err error) {
	for done < limit {
		rows, n := min(cleanRows, limit-done), 0
		if err := q.config.Pool.QueryRow(ctx, statement, q.config.Name, age, rows).Scan(&n); err != nil {
			return done, err
		}
		done += n
		if n < rows {
			break
		}
	}
	return done, nil
}
