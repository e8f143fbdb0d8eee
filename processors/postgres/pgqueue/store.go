package pgqueue

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/processors/postgres/internal/wake"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

// lockAggregates makes transactions that store events of one aggregate follow one another. So
// entries of an aggregate get their numbers in the order in which they are committed, and none
// appears before another one that workers have seen. The locks are taken in one order, so that two
// calls cannot deadlock.
const lockAggregates = `
SELECT pg_advisory_xact_lock(key) FROM (
	SELECT DISTINCT hashtextextended('pgqueue ' || $1 || ' ' || aggregate, 0) AS key FROM unnest($2::text[]) AS aggregate ORDER BY 1
) AS keys`

const insertEntry = `
INSERT INTO onceward.queue (queue, event_id, status, event_type, subject, aggregate, source, payload_hash, payload, header_keys, header_values, due_at)
VALUES ($1, $2, 'RECEIVED', $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp())
ON CONFLICT (queue, event_id) WHERE copy_of IS NULL DO NOTHING`

// insertCopy stores an event whose id has an entry. It has no place in the order of an aggregate.
const insertCopy = `
INSERT INTO onceward.queue (queue, event_id, copy_of, status, event_type, subject, source, payload_hash, payload, header_keys, header_values,
	settled_at, class, reason)
SELECT $1, $2, entry, status, $3, $4, $5, $6::bytea, payload, header_keys, header_values, settled_at, class, reason
FROM (
	SELECT entry, 'DUPLICATE' AS status, NULL::bytea AS payload, '{}'::bytea[] AS header_keys, '{}'::bytea[] AS header_values,
		clock_timestamp() AS settled_at, NULL AS class, NULL AS reason
	FROM onceward.queue WHERE queue = $1 AND event_id = $2 AND copy_of IS NULL AND payload_hash = $6
	UNION ALL
	SELECT entry, 'QUARANTINED', $7, $8, $9, NULL, 'conflict', 'another payload came first under this id'
	FROM onceward.queue WHERE queue = $1 AND event_id = $2 AND copy_of IS NULL AND payload_hash <> $6
) AS copied
RETURNING status`

// triesMax bounds how often an arrival starts over because entries have come or gone between two
// statements.
const triesMax = 10

// Store stores events in the caller's transaction, in their order, and returns the status of each:
// Received, Duplicate, or Quarantined for one whose id has come before with another payload. When
// the transaction has committed, and not before, the source may move on.
//
// It waits for transactions that store events of the same ids or aggregates. An error leaves the
// transaction aborted, unless it is of class Validation (topology.ClassOf): an event has no id, or
// texts that cannot be stored, and nothing was done.
func (q *Queue) Store(ctx context.Context, tx pgx.Tx, events ...Event) ([]Status, error) {
	var aggregates []string
	for i := range events {
		if err := events[i].check(); err != nil {
			return nil, q.failed(fmt.Sprintf("store event %d of %d", i+1, len(events)), err)
		}
		if events[i].Aggregate != "" {
			aggregates = append(aggregates, events[i].Aggregate)
		}
	}
	if len(aggregates) > 0 {
		if _, err := tx.Exec(ctx, lockAggregates, q.config.Name, aggregates); err != nil {
			return nil, q.failed("store", work.Failed("lock aggregates", err))
		}
	}
	statuses, err := q.store(ctx, tx, events)
	if err != nil {
		return nil, q.failed("store", err)
	}
	for _, s := range statuses {
		q.metrics.arrivals[s].Inc()
	}
	return statuses, nil
}

func (q *Queue) store(ctx context.Context, tx pgx.Tx, events []Event) ([]Status, error) {
	statuses := make([]Status, len(events))
	for range triesMax {
		batch := &pgx.Batch{}
		received := false
		for i := range events {
			if statuses[i] == "" {
				q.queueInsert(batch, &events[i], &statuses[i])
			}
		}
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return nil, work.Failed("insert entries", err)
		}
		batch = &pgx.Batch{}
		for i := range events {
			received = received || statuses[i] == Received
			if statuses[i] == "" {
				q.queueCopy(batch, &events[i], &statuses[i])
			}
		}
		copies := batch.Len()
		if received {
			batch.Queue(wake.Notify, channel, q.config.Name)
		}
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return nil, work.Failed("insert copies", err)
		}
		done := copies == 0
		if !done {
			done = true
			for _, s := range statuses {
				done = done && s != ""
			}
		}
		if done {
			return statuses, nil
		}
	}
	return nil, topology.Fail(topology.Transient, errors.New("entries have come and gone while events were stored"))
}

// queueInsert queues the insert of an event, which sets the status unless the id has an entry.
func (q *Queue) queueInsert(batch *pgx.Batch, e *Event, status *Status) {
	var aggregate *string
	if e.Aggregate != "" {
		aggregate = &e.Aggregate
	}
	keys, values := headerArrays(e.Headers)
	batch.Queue(insertEntry, q.config.Name, e.ID, e.Type, e.Subject, aggregate, e.Source, e.hash(), e.Payload, keys, values).
		Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 1 {
				*status = Received
			}
			return nil
		})
}

// queueCopy queues the insert of a copy, which sets the status unless the entry of the id is gone.
func (q *Queue) queueCopy(batch *pgx.Batch, e *Event, status *Status) {
	keys, values := headerArrays(e.Headers)
	batch.Queue(insertCopy, q.config.Name, e.ID, e.Type, e.Subject, e.Source, e.hash(), e.Payload, keys, values).
		QueryRow(func(row pgx.Row) error {
			if err := row.Scan(status); !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			return nil
		})
}
