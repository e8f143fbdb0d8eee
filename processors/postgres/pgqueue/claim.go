package pgqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// dueEntries locks entries that may be claimed by their time. head is the first entry of the
// aggregate that is not settled: another entry than the head has to wait for it. No entry appears
// before a head that was seen, and a settled entry stays settled, so that a head is one until it is
// settled.
const dueEntries = `
WITH due AS MATERIALIZED (
	SELECT entry, aggregate, status, attempts, claims, claimed_by, due_at FROM onceward.queue
	WHERE queue = $1 AND due_at <= now() ORDER BY due_at, entry LIMIT $2 FOR UPDATE SKIP LOCKED
)
SELECT entry, status = 'CLAIMED', attempts, claims, coalesce(claimed_by, ''), coalesce((
	SELECT o.entry FROM onceward.queue o WHERE o.queue = $1 AND o.aggregate = due.aggregate AND o.settled_at IS NULL ORDER BY o.entry LIMIT 1
), entry) FROM due ORDER BY due_at, entry`

// lockHeads keeps heads from being settled until the claim commits. Those that are being settled
// are left out.
const lockHeads = `SELECT entry FROM onceward.queue WHERE entry = ANY($1) AND settled_at IS NULL FOR SHARE SKIP LOCKED`

// parkEntries takes entries out of the way of those that can be claimed, until the end of another
// one wakes them.
const parkEntries = `UPDATE onceward.queue SET due_at = NULL WHERE entry = ANY($1)`

const claimEntries = `
UPDATE onceward.queue SET status = 'CLAIMED', claims = claims + 1, attempts = attempts + 1, claimed_by = $2, claimed_at = clock_timestamp(),
	due_at = clock_timestamp() + $3::interval
WHERE entry = ANY($1) RETURNING ` + entryColumns

// giveUpEntry quarantines an entry whose claims expire. The claim is counted up, so that none of
// them can settle.
const giveUpEntry = `
UPDATE onceward.queue SET status = 'QUARANTINED', claims = claims + 1, due_at = NULL, class = 'poison', reason = $2 WHERE entry = $1`

// returnEntry ends a claim that has expired. The entry is tried again after a pause: entries whose
// process one of them has ended are not at work together again, and so the others get through.
const returnEntry = `
UPDATE onceward.queue SET status = 'RETRYABLE_FAILED', class = 'transient', reason = $2, due_at = clock_timestamp() + $3::interval WHERE entry = $1`

const insertDecision = `
INSERT INTO onceward.queue_decisions (entry, claim, status, decided_by, class, reason) VALUES ($1, $2, $3, $4, $5, $6)`

// dueEntry is a row of dueEntries.
type dueEntry struct {
	entry    int64
	expired  bool // its claim has
	attempts int
	claims   int
	by       string
	head     int64
}

// claimed is what one attempt to claim has brought.
type claimed struct {
	entries []*Entry
	seen    int // entries that were due
	parked  int
}

// claim claims up to n entries, of up to look that are due.
func (q *Queue) claim(ctx context.Context, n, look int) (c claimed, err error) {
	began := time.Now()
	err = pgx.BeginTxFunc(ctx, q.config.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		c, err = q.claimIn(ctx, tx, n, look)
		return err
	})
	if err != nil {
		return claimed{}, work.Failed("claim entries", err)
	}
	for _, e := range c.entries {
		e.expires = began.Add(q.config.ClaimFor - q.config.ClaimFor/10) // before the server's time of expiry, so that a failure can be recorded
	}
	q.metrics.claims.Add(float64(len(c.entries)))
	return c, nil
}

func (q *Queue) claimIn(ctx context.Context, tx pgx.Tx, n, look int) (c claimed, err error) {
	rows, err := tx.Query(ctx, dueEntries, q.config.Name, look)
	if err != nil {
		return c, err
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d dueEntry, err error) {
		err = row.Scan(&d.entry, &d.expired, &d.attempts, &d.claims, &d.by, &d.head)
		return d, err
	})
	if err != nil {
		return c, err
	}
	c.seen = len(due)
	var take, heads []int64
	blocked := map[int64][]int64{} // by head
	decisions := &pgx.Batch{}
	for _, d := range due {
		switch {
		case d.head != d.entry:
			heads = append(heads, d.head)
			blocked[d.head] = append(blocked[d.head], d.entry)
		case d.expired && d.attempts >= q.config.Attempts:
			reason := fmt.Sprintf("claim %d of %s has expired, and so was the last of %d attempts", d.claims, d.by, d.attempts)
			decisions.Queue(giveUpEntry, d.entry, reason)
			decisions.Queue(insertDecision, d.entry, d.claims, Quarantined, q.owner, "poison", reason)
			q.expired(d)
			q.metrics.quarantined.Inc()
			q.config.Logger.Error("an entry is quarantined", "entry", d.entry, "reason", reason)
		case d.expired:
			reason := fmt.Sprintf("claim %d of %s has expired", d.claims, d.by)
			decisions.Queue(returnEntry, d.entry, reason, work.Pause(d.attempts, q.config.RetryMin, q.config.RetryMax))
			decisions.Queue(insertDecision, d.entry, d.claims, RetryableFailed, q.owner, "transient", reason)
			q.expired(d)
		case len(take) < n: // another claim takes the others
			take = append(take, d.entry)
		}
	}
	if c.parked, err = park(ctx, tx, heads, blocked); err != nil {
		return c, err
	}
	if err := tx.SendBatch(ctx, decisions).Close(); err != nil {
		return c, err
	}
	if len(take) == 0 {
		return c, nil
	}
	rows, err = tx.Query(ctx, claimEntries, take, q.owner, q.config.ClaimFor)
	if err != nil {
		return c, err
	}
	c.entries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Entry, error) {
		e, err := scanEntry(row)
		return &e, err
	})
	return c, err
}

// expired counts an expired claim. The claim that finds it may still fail to commit, and count it
// again.
func (q *Queue) expired(d dueEntry) {
	q.metrics.expired.Inc()
	q.config.Logger.Warn("a claim has expired", "entry", d.entry, "claim", d.claims, "claimed by", d.by)
}

// park parks entries behind heads that are not being settled in this moment. The end of a head
// waits for this transaction, and then finds the entries parked.
func park(ctx context.Context, tx pgx.Tx, heads []int64, blocked map[int64][]int64) (parked int, err error) {
	if len(heads) == 0 {
		return 0, nil
	}
	rows, err := tx.Query(ctx, lockHeads, heads)
	if err != nil {
		return 0, err
	}
	locked, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, err
	}
	var all []int64
	for _, head := range locked {
		all = append(all, blocked[head]...)
	}
	_, err = tx.Exec(ctx, parkEntries, all)
	return len(all), err
}
