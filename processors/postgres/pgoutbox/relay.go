package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/wake"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

const (
	pauseMin = 100 * time.Millisecond
	pauseMax = 5 * time.Second
	// measureEvery is how often the lag is measured, and cleanEvery how often published entries are removed.
	measureEvery = 5 * time.Second
	cleanEvery   = time.Minute
	cleanMax     = 100_000
	// markFor bounds how long a relay that stops tries to mark what was published.
	markFor = 5 * time.Second
)

// takeEntries locks entries that can be published by their time. One that waits to be tried again holds up those behind it in its aggregate.
const takeEntries = `
SELECT ` + entryColumns + ` FROM onceward.outbox o
WHERE outbox = $1 AND status = 'PENDING' AND (retry_at IS NULL OR retry_at <= now()) AND (aggregate IS NULL OR NOT EXISTS (
	SELECT FROM onceward.outbox f WHERE f.outbox = $1 AND f.aggregate = o.aggregate AND f.status = 'PENDING' AND f.retry_at > now() AND f.entry < o.entry
)) ORDER BY entry LIMIT $2 FOR UPDATE SKIP LOCKED`

// firstOfOthers returns the first pending entry of each aggregate that this relay has not locked: another one has it, or it is beyond the batch. It is a
// statement of its own, which sees what has happened while the entries were locked.
const firstOfOthers = `
SELECT aggregate, (
	SELECT o.entry FROM onceward.outbox o WHERE o.outbox = $1 AND o.aggregate = a.aggregate AND o.status = 'PENDING' AND o.entry <> ALL($3::bigint[])
	ORDER BY o.entry LIMIT 1
) FROM unnest($2::text[]) AS a(aggregate)`

const markPublished = `
UPDATE onceward.outbox o SET status = 'PUBLISHED', published_at = clock_timestamp(), decided_by = $4, retry_at = NULL, class = NULL, reason = NULL,
	partition = p.partition, record_offset = p.record_offset
FROM unnest($1::bigint[], $2::int[], $3::bigint[]) AS p(entry, partition, record_offset) WHERE o.entry = p.entry`

const markFailed = `
UPDATE onceward.outbox SET attempts = attempts + 1, retry_at = clock_timestamp() + $2::interval, class = $3, reason = $4 WHERE entry = $1`

// Run publishes what was appended until the context ends, and returns nil then. Any other end is an error. It can be called again afterwards, and by as many
// processes as wanted.
func (o *Outbox) Run(ctx context.Context) error {
	if len(o.config.Client) == 0 {
		return o.failed("run", errors.New("Config.Client has no options: kgo.SeedBrokers at least"))
	}
	options := append([]kgo.Opt{kgo.ProducerLinger(0)}, o.config.Client...)
	client, err := kgo.NewClient(append(options,
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// The timeout of a record also ends the wait for an answer that does not come. The record may be there then, and is published again.
		kgo.AllowIdempotentProduceCancellation(),
	)...)
	if err != nil {
		return o.failed("run", fmt.Errorf("the Kafka client: %w", err))
	}
	defer client.Close()
	inner, end := context.WithCancel(ctx)
	defer end()
	woken := make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() { wake.Listen(inner, o.config.Pool, channel, o.config.Name, woken, o.config.Logger) })
	wg.Go(func() { o.measure(inner) })
	wg.Go(func() { o.clean(inner) })
	err = o.relay(ctx, client, woken)
	end()
	wg.Wait()
	if ctx.Err() != nil {
		return nil // the caller has asked for this end
	}
	return o.failed("run", err)
}

// relay publishes batch after batch.
func (o *Outbox) relay(ctx context.Context, client *kgo.Client, woken <-chan struct{}) error {
	for failures := 0; ctx.Err() == nil; {
		published, err := o.batch(ctx, client)
		switch {
		case ctx.Err() != nil:
		case err == nil && published > 0:
			failures = 0
		case err == nil:
			failures = 0
			select {
			case <-woken:
			case <-time.After(o.config.Poll):
			case <-ctx.Done():
			}
		case errors.Is(err, errBrokers), work.Unavailable(err), postgres.ClassOf(err) == topology.Transient, postgres.ClassOf(err) == topology.Overload:
			failures++
			o.config.Logger.Warn("events cannot be published", "failures", failures, "reason", reasonOf(err))
			work.Wait(ctx, nil, work.Pause(failures, pauseMin, pauseMax))
		default:
			return err
		}
	}
	return nil
}

// batch publishes entries in one transaction, which locks them meanwhile. It returns how many.
func (o *Outbox) batch(ctx context.Context, client *kgo.Client) (published int, err error) {
	t, err := o.config.Pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: o.begin()})
	if err != nil {
		return 0, work.Failed("begin", err)
	}
	// Behind a COMMIT, and on a connection that has ended, this does nothing. Its own failure ends the connection, and so the transaction.
	defer func() { _ = t.Rollback(context.WithoutCancel(ctx)) }()
	conn := t.Conn()
	entries, err := o.take(ctx, t)
	if err != nil {
		return 0, work.OfConnection(conn, work.Failed("take entries", err))
	}
	if len(entries) == 0 {
		return 0, nil
	}
	if err := o.at(ctx, "taken"); err != nil {
		return 0, err
	}
	sent := o.publish(ctx, client, chains(entries, o.together))
	if err := o.at(ctx, "published"); err != nil {
		return 0, err
	}
	// A relay that stops still marks what the brokers have, or the next one publishes it again.
	mark, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(markFor, cancel) })()
	if err := o.mark(mark, t, sent); err != nil {
		o.metrics.unmarked.Add(float64(len(sent.published)))
		return 0, work.OfConnection(conn, work.Failed("mark entries", err))
	}
	if err := o.at(ctx, "marked"); err != nil {
		return 0, err
	}
	if err := t.Commit(mark); err != nil {
		o.metrics.unmarked.Add(float64(len(sent.published)))
		return 0, work.OfConnection(conn, work.Failed("commit", err))
	}
	o.metrics.published.Add(float64(len(sent.published)))
	if err := o.at(ctx, "committed"); err != nil {
		return 0, err
	}
	if sent.outage() {
		return 0, sent.failed[0].err
	}
	return len(sent.published), nil
}

// begin is the statement that begins a transaction. It runs at READ COMMITTED, because firstOfOthers has to see what is new. The limit makes the server end the
// transaction of a relay that has frozen in it.
func (o *Outbox) begin() string {
	return fmt.Sprintf("begin isolation level read committed; set local idle_in_transaction_session_timeout = %d", o.config.IdleInTransaction.Milliseconds())
}

// take locks entries and returns those that may be published: of each aggregate its first pending entries, without a gap.
func (o *Outbox) take(ctx context.Context, tx pgx.Tx) ([]*Entry, error) {
	rows, err := tx.Query(ctx, takeEntries, o.config.Name, o.config.BatchRecords)
	if err != nil {
		return nil, err
	}
	locked, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return nil, err
	}
	var numbers []int64
	aggregates := map[string]bool{}
	var names []string
	for _, e := range locked {
		numbers = append(numbers, e.Number)
		if e.Aggregate != "" && !aggregates[e.Aggregate] {
			aggregates[e.Aggregate] = true
			names = append(names, e.Aggregate)
		}
	}
	first := map[string]int64{}
	if len(names) > 0 && !o.othersPass {
		rows, err := tx.Query(ctx, firstOfOthers, o.config.Name, names, numbers)
		if err != nil {
			return nil, err
		}
		var aggregate string
		var entry *int64
		_, err = pgx.ForEachRow(rows, []any{&aggregate, &entry}, func() error {
			if entry != nil {
				first[aggregate] = *entry
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var entries []*Entry
	for i, e := range locked {
		if other, ok := first[e.Aggregate]; !ok || e.Number < other {
			entries = append(entries, &locked[i])
		}
	}
	return entries, nil
}

// mark writes the result of sending a batch to the table.
func (o *Outbox) mark(ctx context.Context, tx pgx.Tx, s sent) error {
	batch := &pgx.Batch{}
	if len(s.published) > 0 {
		var numbers, offsets []int64
		var partitions []int32
		for _, p := range s.published {
			numbers, partitions, offsets = append(numbers, p.entry.Number), append(partitions, p.record.Partition), append(offsets, p.record.Offset)
		}
		batch.Queue(markPublished, numbers, partitions, offsets, o.owner)
	}
	if !s.outage() {
		for _, f := range s.failed {
			class := classOf(f.err)
			pause := work.Pause(f.entry.Attempts+1, o.config.RetryMin, o.config.RetryMax)
			batch.Queue(markFailed, f.entry.Number, pause, class.String(), reasonOf(f.err))
			o.metrics.failures.WithLabelValues(o.config.Name, class.String()).Inc()
			o.config.Logger.Error("an event cannot be published, and holds up its aggregate", "entry", f.entry.Number, "topic", f.entry.Topic, "class", class,
				"attempts", f.entry.Attempts+1, "reason", reasonOf(f.err))
		}
	}
	return tx.SendBatch(ctx, batch).Close()
}

// lag returns the age of the oldest pending entry and how many there are, up to a limit.
const lag = `
SELECT coalesce((SELECT extract(epoch FROM clock_timestamp() - appended_at) FROM onceward.outbox
		WHERE outbox = $1 AND status = 'PENDING' ORDER BY entry LIMIT 1), 0)::float8,
	(SELECT count(*) FROM (SELECT FROM onceward.outbox WHERE outbox = $1 AND status = 'PENDING' LIMIT 100000) AS pending)::float8`

// measure keeps the gauges of the lag up to date.
func (o *Outbox) measure(ctx context.Context) {
	for {
		var age, pending float64
		err := o.config.Pool.QueryRow(ctx, lag, o.config.Name).Scan(&age, &pending)
		if err == nil {
			o.metrics.oldest.Set(age)
			o.metrics.pending.Set(pending)
		} else if ctx.Err() == nil {
			o.config.Logger.Warn("the lag cannot be measured", "reason", work.Reason(work.Failed("measure", err)))
		}
		if !work.Wait(ctx, nil, measureEvery) {
			return
		}
	}
}

// clean removes published entries now and then.
func (o *Outbox) clean(ctx context.Context) {
	for {
		if _, err := o.Clean(ctx, cleanMax); err != nil && ctx.Err() == nil {
			o.config.Logger.Warn("published entries cannot be removed", "reason", work.Reason(err))
		}
		if !work.Wait(ctx, nil, cleanEvery) {
			return
		}
	}
}
