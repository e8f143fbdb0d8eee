package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/wake"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// Filter selects entries.
type Filter struct {
	// Statuses are those to have, nil for all.
	Statuses []Status
	// EventID and Aggregate are those to have, if they are not empty.
	EventID, Aggregate string
	// After is the number of the entry to begin behind.
	After int64
}

// The parts of the statement of List. The parts that depend on the filter let it use an index.
const (
	listColumns = `SELECT ` + entryColumns + ` FROM `
	listAll     = `onceward.queue`
	listOfEvent = `(SELECT * FROM onceward.queue WHERE queue = $1 AND event_id = $4 AND copy_of IS NULL
	UNION ALL SELECT * FROM onceward.queue WHERE queue = $1 AND event_id = $4 AND copy_of IS NOT NULL) AS q`
	listWhere = `
WHERE queue = $1 AND entry > $2 AND ($3::text[] IS NULL OR status = ANY($3)) AND ($4 = '' OR event_id = $4) AND ($5 = '' OR aggregate = $5)`
	listPending     = ` AND settled_at IS NULL AND status <> 'QUARANTINED'`
	listQuarantined = ` AND status = 'QUARANTINED'`
	listLimit       = ` ORDER BY entry LIMIT $6`
)

// sql returns the statement of List.
func (f *Filter) sql() string {
	from, which := listAll, ""
	if f.EventID != "" {
		from = listOfEvent
	}
	pending, quarantined := len(f.Statuses) > 0, len(f.Statuses) > 0
	for _, s := range f.Statuses {
		pending = pending && !s.Final() && s != Quarantined
		quarantined = quarantined && s == Quarantined
	}
	switch {
	case pending:
		which = listPending
	case quarantined:
		which = listQuarantined
	}
	return listColumns + from + listWhere + which + listLimit
}

// List returns the entries that the filter selects, in the order of their numbers and at most limit
// of them. It reads the table from [Filter.After] on, unless the filter has an event id, or only
// statuses that are not final.
func (q *Queue) List(ctx context.Context, f Filter, limit int) ([]Entry, error) {
	if limit < 1 {
		return nil, q.failed("list", errLimit)
	}
	rows, err := q.config.Pool.Query(ctx, f.sql(), q.config.Name, f.After, f.Statuses, f.EventID, f.Aggregate, limit)
	if err == nil {
		var all []Entry
		if all, err = pgx.CollectRows(rows, scanEntry); err == nil {
			return all, nil
		}
	}
	return nil, q.failed("list", work.Failed("read entries", err))
}

// Evidence is one decision on an entry.
type Evidence struct {
	At time.Time
	// Claim is how many claims the entry had.
	Claim  int
	Status Status
	// By names the process or the person.
	By string
	// Class and Reason say why. They quote nothing of the payload.
	Class  topology.Class
	Reason string
}

// ErrNoEntry: the queue has no entry of that number, or not any more.
var ErrNoEntry = errors.New("there is no such entry")

// Show returns an entry and the decisions on it, the oldest first. The entry itself has the
// decision on its arrival.
func (q *Queue) Show(ctx context.Context, entry int64) (Entry, []Evidence, error) {
	rows, err := q.config.Pool.Query(ctx, `SELECT `+entryColumns+` FROM onceward.queue WHERE queue = $1 AND entry = $2`, q.config.Name, entry)
	var e Entry
	if err == nil {
		e, err = pgx.CollectExactlyOneRow(rows, scanEntry)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return e, nil, q.failed(fmt.Sprintf("show entry %d", entry), ErrNoEntry)
	}
	var all []Evidence
	if err == nil {
		rows, err = q.config.Pool.Query(ctx, `SELECT decided_at, claim, status, decided_by, coalesce(class, ''), coalesce(reason, '')
			FROM onceward.queue_decisions WHERE entry = $1 ORDER BY decided_at`, entry)
	}
	if err == nil {
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Evidence, err error) {
			var class string
			if err := row.Scan(&d.At, &d.Claim, &d.Status, &d.By, &class, &d.Reason); err != nil || class == "" {
				return d, err
			}
			d.Class, err = graph.ParseClass(class)
			return d, err
		})
	}
	if err != nil {
		return e, nil, q.failed(fmt.Sprintf("show entry %d", entry), work.Failed("read an entry", err))
	}
	return e, all, nil
}

// act is what a person can do with an entry: the statuses from which, the one to which, and the
// change beside it.
type act struct {
	name string
	from []Status
	to   Status
	set  string
}

var (
	requeue = act{"requeue", []Status{Quarantined, RetryableFailed}, RetryableFailed, "due_at = clock_timestamp(), attempts = 0"}
	// A claim is counted up, so that a worker that has it cannot settle.
	quarantine = act{"quarantine", []Status{Received, Claimed, RetryableFailed}, Quarantined, "due_at = NULL, claims = claims + 1"}
	ignore     = act{"ignore", []Status{Received, RetryableFailed, Quarantined}, Ignored, "due_at = NULL, settled_at = clock_timestamp()"}
)

// Requeue has workers try an entry again that is Quarantined or RetryableFailed, at once. Its
// attempts count from the beginning. by and reason are kept as evidence. A conflict that is
// requeued has its effect beside that of the event that came first.
func (q *Queue) Requeue(ctx context.Context, entry int64, by, reason string) error {
	return q.act(ctx, requeue, entry, by, reason)
}

// Quarantine keeps workers from an entry that is Received, Claimed or RetryableFailed. A worker
// that has claimed it cannot settle it any more. by and reason are kept as evidence.
func (q *Queue) Quarantine(ctx context.Context, entry int64, by, reason string) error {
	return q.act(ctx, quarantine, entry, by, reason)
}

// Ignore settles an entry without an effect that is Received, RetryableFailed or Quarantined, and
// so lets later ones of its aggregate pass. It cannot be taken back. by and reason are kept as
// evidence.
func (q *Queue) Ignore(ctx context.Context, entry int64, by, reason string) error {
	return q.act(ctx, ignore, entry, by, reason)
}

func (q *Queue) act(ctx context.Context, a act, entry int64, by, reason string) error {
	op := fmt.Sprintf("%s entry %d", a.name, entry)
	if by == "" || !storable(by, textBytesMax) || !storable(reason, textBytesMax) {
		return q.failed(op, topology.Fail(topology.Validation,
			schemas.Reason("who does it has to be said; that and the reason are valid UTF-8 of at most 1024 bytes without zero bytes")))
	}
	err := pgx.BeginTxFunc(ctx, q.config.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var status Status
		var aggregate string
		var claims int
		err := tx.QueryRow(ctx, `SELECT status, coalesce(aggregate, ''), claims FROM onceward.queue WHERE queue = $1 AND entry = $2 FOR UPDATE`,
			q.config.Name, entry).Scan(&status, &aggregate, &claims)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoEntry
		}
		if err != nil {
			return work.Failed("read an entry", err)
		}
		possible := false
		for _, s := range a.from {
			possible = possible || s == status
		}
		if !possible {
			return topology.Fail(topology.Conflict, fmt.Errorf("the entry is %s, and has to be one of %v", status, a.from))
		}
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE onceward.queue SET status = $2, class = NULL, reason = $3, `+a.set+` WHERE entry = $1`, entry, a.to, reason)
		batch.Queue(insertDecision, entry, claims, a.to, by, nil, reason)
		batch.Queue(wakeNext, q.config.Name, aggregate)
		batch.Queue(wake.Notify, channel, q.config.Name)
		return work.Failed("decide", tx.SendBatch(ctx, batch).Close())
	})
	return q.failed(op, err)
}
