package pgoutbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/processors/postgres/internal/wake"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

// Outbox keeps the events of one name until they are published. It is safe for concurrent use, by
// any number of processes.
type Outbox struct {
	config  Config
	owner   string
	metrics metrics

	// Tests replace these fields: see export_test.go.
	at         func(ctx context.Context, point string) error
	together   bool // publish the events of an aggregate without waiting for one another
	othersPass bool // publish events of an aggregate behind one that another relay has

	batchBytes  int64
	straggleMax time.Duration
}

// channel is what relays of all outboxes of a database listen on.
const channel = "onceward_outbox"

// New returns an outbox. It asks neither Kafka nor the database: missing tables show at the first
// use.
func New(c Config) (*Outbox, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("pgoutbox: %w", err)
	}
	o := &Outbox{config: c, owner: work.Owner(), batchBytes: batchBytesMax, straggleMax: straggleMax}
	o.at = func(context.Context, string) error { return nil }
	if o.metrics, err = newMetrics(c.Metrics, c.Name); err != nil {
		return nil, fmt.Errorf("pgoutbox: %w", err)
	}
	return o, nil
}

// failed returns the error of an operation, nil for nil.
func (o *Outbox) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgoutbox: %s: %s: %w", o.config.Name, op, err)
}

// lockAggregates makes transactions that append events of one aggregate follow one another. So
// entries of an aggregate get their numbers in the order in which they are committed, and none
// appears before another one that relays have seen. The locks are taken in one order, so that two
// calls cannot deadlock.
const lockAggregates = `
SELECT pg_advisory_xact_lock(key) FROM (
	SELECT DISTINCT hashtextextended('pgoutbox ' || $1 || ' ' || aggregate, 0) AS key FROM unnest($2::text[]) AS aggregate ORDER BY 1
) AS keys`

const insertEntry = `
INSERT INTO onceward.outbox (outbox, event_id, aggregate, topic, record_key, record_value, header_keys, header_values)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

// ErrAppended: the outbox has an entry of the id already.
var ErrAppended = errors.New("the outbox has an event of this id already")

// Append appends events in the caller's transaction, in their order. They are published when it has
// committed.
//
// It waits for transactions that append events of the same aggregates, or of the same ids. An error
// leaves the transaction aborted, unless it is of class Validation (topology.ClassOf): an event has
// no id, or something else that cannot be published, and nothing was done. An id that the outbox
// has is ErrAppended, of class Conflict.
func (o *Outbox) Append(ctx context.Context, tx pgx.Tx, events ...Event) error {
	var aggregates []string
	for i := range events {
		if err := events[i].check(); err != nil {
			return o.failed(fmt.Sprintf("append event %d of %d", i+1, len(events)), err)
		}
		if events[i].Aggregate != "" {
			aggregates = append(aggregates, events[i].Aggregate)
		}
	}
	if len(events) == 0 {
		return nil
	}
	if len(aggregates) > 0 {
		if _, err := tx.Exec(ctx, lockAggregates, o.config.Name, aggregates); err != nil {
			return o.failed("append", work.Failed("lock aggregates", err))
		}
	}
	batch := &pgx.Batch{}
	for i := range events {
		e := &events[i]
		var aggregate *string
		key := e.Key
		if e.Aggregate != "" {
			aggregate = &e.Aggregate
		}
		if key == nil {
			key = []byte(cmp.Or(e.Aggregate, e.ID))
		}
		keys, values := make([][]byte, len(e.Headers)), make([][]byte, len(e.Headers))
		for j, h := range e.Headers {
			keys[j], values[j] = []byte(h.Key), h.Value
		}
		batch.Queue(insertEntry, o.config.Name, e.ID, aggregate, e.Topic, key, e.Value, keys, values)
	}
	batch.Queue(wake.Notify, channel, o.config.Name)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.ConstraintName == "outbox_event_id" {
			err = topology.Fail(topology.Conflict, fmt.Errorf("%w: %w", ErrAppended, err))
		}
		return o.failed("append", work.Failed("insert entries", err))
	}
	o.metrics.appended.Add(float64(len(events)))
	return nil
}
