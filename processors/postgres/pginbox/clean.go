package pginbox

import (
	"context"
	"errors"
	"fmt"
)

// cleanRows is how many marks one transaction of Clean removes: little enough to be short, and for
// others not to wait.
const cleanRows = 1000

const oldMarks = `
WITH old AS (
	SELECT service, event_id FROM onceward.inbox
	WHERE service = $1 AND marked_at < now() - $2::interval ORDER BY marked_at LIMIT $3 FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM onceward.inbox i USING old WHERE i.service = old.service AND i.event_id = old.event_id RETURNING i.*
)`

const (
	deleteMarks  = oldMarks + ` SELECT count(*) FROM gone`
	archiveMarks = oldMarks + `, archived AS (
	INSERT INTO onceward.inbox_archive
		(service, event_id, outcome, event_type, subject, payload, business_key, first_id, marked_at)
	SELECT service, event_id, outcome, event_type, subject, payload, business_key, first_id, marked_at FROM gone RETURNING 1
) SELECT count(*) FROM archived`
)

// Clean forgets marks whose retention is over, the oldest first and at most limit of them, in
// transactions of at most 1000. It returns how many it has forgotten, also with an error; fewer
// than limit says that nothing is left to do. Call it every now and then, from as many instances as
// you like: none waits for another, or holds up a mark.
func (b *Inbox) Clean(ctx context.Context, limit int) (forgotten int, err error) {
	if limit < 1 {
		return 0, fmt.Errorf("pginbox: %s: clean: %w", b.service, errors.New("the limit is 1 or more"))
	}
	statement := deleteMarks
	if b.archive {
		statement = archiveMarks
	}
	for forgotten < limit {
		rows, n := min(cleanRows, limit-forgotten), 0
		if err := b.pool.QueryRow(ctx, statement, b.service, b.retention, rows).Scan(&n); err != nil {
			return forgotten, fmt.Errorf("pginbox: %s: clean: %w", b.service, explain(err))
		}
		forgotten += n
		b.cleaned.Add(float64(n))
		if n < rows {
			return forgotten, nil
		}
	}
	return forgotten, nil
}
