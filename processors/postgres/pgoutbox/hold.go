package pgoutbox

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// lookMax is how many entries a relay looks at directly after it has held some: more than a batch,
// so that a long aggregate is out of the way soon.
const lookMax = 5000

// lockWaiting locks entries that wait: for their time, or because they are held. It leaves out
// those that a relay has, or a person: their end is about to release what they hold up.
const lockWaiting = `
SELECT entry FROM onceward.outbox WHERE entry = ANY($1) AND status = 'PENDING' AND retry_at IS NOT NULL FOR SHARE SKIP LOCKED`

// holdEntries takes entries out of the way of those that can be published.
const holdEntries = `UPDATE onceward.outbox SET retry_at = 'infinity' WHERE entry = ANY($1)`

// releaseHeld has relays look again at the first held entries of aggregates. The others follow when
// these are published.
const releaseHeld = `
UPDATE onceward.outbox SET retry_at = NULL WHERE entry IN (
	SELECT h.entry FROM unnest($2::text[]) AS a(aggregate) CROSS JOIN LATERAL (
		SELECT entry FROM onceward.outbox o WHERE o.outbox = $1 AND o.aggregate = a.aggregate AND o.status = 'PENDING' AND o.retry_at = 'infinity'
		ORDER BY entry LIMIT $3
	) AS h
)`

// hold holds entries behind others that wait. A relay that publishes one of those, or a person who
// quarantines it, waits for this transaction, and then finds the entries held. A transaction that
// holds entries does nothing else: its locks must be short, because releaseHeld waits for them.
func hold(ctx context.Context, tx pgx.Tx, blocked map[int64][]int64) (held int, err error) {
	var others []int64
	for other := range blocked {
		others = append(others, other)
	}
	rows, err := tx.Query(ctx, lockWaiting, others)
	if err != nil {
		return 0, err
	}
	locked, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(locked) == 0 {
		return 0, err
	}
	var all []int64
	for _, other := range locked {
		all = append(all, blocked[other]...)
	}
	_, err = tx.Exec(ctx, holdEntries, all)
	return len(all), err
}
