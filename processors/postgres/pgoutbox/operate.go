package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/wake"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Filter selects entries.
type Filter struct {
	// Statuses are those to have, nil for all.
	Statuses []Status
	// EventID and Aggregate are those to have, if they are not empty.
	EventID, Aggregate string
	// Failing selects pending entries that could not be published.
	Failing bool
	// After is the number of the entry to begin behind.
	After int64
}

const listEntries = `SELECT ` + entryColumns + ` FROM onceward.outbox
WHERE outbox = $1 AND entry > $2 AND ($3::text[] IS NULL OR status = ANY($3)) AND ($4 = '' OR event_id = $4) AND ($5 = '' OR aggregate = $5)
	AND (NOT $6 OR status = 'PENDING' AND attempts > 0)
ORDER BY entry LIMIT $7`

var errLimit = errors.New("the limit is 1 or more")

// List returns the entries that the filter selects, in the order of their numbers and at most limit
// of them.
func (o *Outbox) List(ctx context.Context, f Filter, limit int) ([]Entry, error) {
	if limit < 1 {
		return nil, o.failed("list", errLimit)
	}
	rows, err := o.config.Pool.Query(ctx, listEntries, o.config.Name, f.After, f.Statuses, f.EventID, f.Aggregate, f.Failing, limit)
	if err == nil {
		var all []Entry
		if all, err = pgx.CollectRows(rows, scanEntry); err == nil {
			return all, nil
		}
	}
	return nil, o.failed("list", work.Failed("read entries", err))
}

// ErrNoEntry: the outbox has no entry of that number, or not any more.
var ErrNoEntry = errors.New("there is no such entry")

// Show returns an entry.
func (o *Outbox) Show(ctx context.Context, entry int64) (Entry, error) {
	rows, err := o.config.Pool.Query(ctx, `SELECT `+entryColumns+` FROM onceward.outbox WHERE outbox = $1 AND entry = $2`, o.config.Name, entry)
	var e Entry
	if err == nil {
		e, err = pgx.CollectExactlyOneRow(rows, scanEntry)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return e, o.failed(fmt.Sprintf("show entry %d", entry), ErrNoEntry)
	}
	return e, o.failed(fmt.Sprintf("show entry %d", entry), work.Failed("read an entry", err))
}

// Requeue has a relay publish an entry at once that is Quarantined, or Pending and waits to be
// tried again. One from quarantine is published behind what was published of its aggregate since.
// by and reason are stored.
func (o *Outbox) Requeue(ctx context.Context, entry int64, by, reason string) error {
	return o.act(ctx, "requeue", entry, []Status{Quarantined, Pending}, Pending, by, reason)
}

// Quarantine takes a Pending entry out, so that later ones of its aggregate pass. It waits for a
// relay that is publishing it, and then finds it Published. by and reason are stored.
func (o *Outbox) Quarantine(ctx context.Context, entry int64, by, reason string) error {
	return o.act(ctx, "quarantine", entry, []Status{Pending}, Quarantined, by, reason)
}

func (o *Outbox) act(ctx context.Context, name string, entry int64, from []Status, to Status, by, reason string) error {
	op := fmt.Sprintf("%s entry %d", name, entry)
	if by == "" || !storable(by, textBytesMax) || !storable(reason, textBytesMax) {
		return o.failed(op, topology.Fail(topology.Validation,
			schemas.Reason("who does it has to be said; that and the reason are valid UTF-8 of at most 1024 bytes without zero bytes")))
	}
	err := pgx.BeginTxFunc(ctx, o.config.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var status Status
		var aggregate string
		var held bool
		err := tx.QueryRow(ctx, `SELECT status, coalesce(aggregate, ''), coalesce(retry_at = 'infinity', false) FROM onceward.outbox
			WHERE outbox = $1 AND entry = $2 FOR UPDATE`, o.config.Name, entry).Scan(&status, &aggregate, &held)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNoEntry
		case err != nil:
			return work.Failed("read an entry", err)
		case !slices.Contains(from, status):
			return topology.Fail(topology.Conflict, fmt.Errorf("the entry is %s, and has to be one of %v", status, from))
		}
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE onceward.outbox SET status = $2, retry_at = NULL, attempts = 0, class = NULL, decided_by = $3, reason = $4 WHERE entry = $1`,
			entry, to, by, reason)
		// Entries behind a held one wait for an earlier one. A relay that releases the held entry
		// could deadlock with this transaction.
		if to == Quarantined && aggregate != "" && !held {
			batch.Queue(releaseHeld, o.config.Name, []string{aggregate}, o.config.BatchRecords)
		}
		batch.Queue(wake.Notify, channel, o.config.Name)
		return work.Failed("decide", tx.SendBatch(ctx, batch).Close())
	})
	return o.failed(op, err)
}

// cleanRows is how many entries one transaction of Clean removes: little enough to be short, and
// for others not to wait.
const cleanRows = 1000

const deleteEntries = `
WITH old AS (
	SELECT entry FROM onceward.outbox WHERE outbox = $1 AND status = 'PUBLISHED' AND published_at < now() - $2::interval
	ORDER BY published_at LIMIT $3 FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM onceward.outbox o USING old WHERE o.entry = old.entry RETURNING 1
)
SELECT count(*) FROM gone`

// Clean removes published entries whose retention is over, the oldest first and at most limit of
// them, in transactions of at most 1000. It returns how many, also with an error; fewer than limit
// says that nothing is left to remove. Relays call it every minute.
func (o *Outbox) Clean(ctx context.Context, limit int) (removed int, err error) {
	if limit < 1 {
		return 0, o.failed("clean", errLimit)
	}
	for removed < limit {
		rows, n := min(cleanRows, limit-removed), 0
		if err := o.config.Pool.QueryRow(ctx, deleteEntries, o.config.Name, o.config.Retention, rows).Scan(&n); err != nil {
			return removed, o.failed("clean", work.Failed("remove what is old", err))
		}
		removed += n
		o.metrics.cleaned.Add(float64(n))
		if n < rows {
			break
		}
	}
	return removed, nil
}
