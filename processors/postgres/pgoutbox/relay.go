package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// measureEvery is how often the lag is measured, and cleanEvery how often published entries are
	// removed.
	measureEvery = 5 * time.Second
	cleanEvery   = time.Minute
	cleanMax     = 100_000
	// markFor bounds how long a relay that stops tries to mark what was published.
	markFor = 5 * time.Second
)

// takeEntries locks entries that can be published by their time, from two lanes: of those that have
// failed before at most $2, and of the others as many as make $3, or one. So entries that fail each
// time leave room for the others, however many there are. Held entries are in neither.
const takeEntries = `
WITH again AS MATERIALIZED (
	SELECT entry, aggregate, ` + entryBytes + ` AS bytes FROM onceward.outbox
	WHERE outbox = $1 AND status = 'PENDING' AND retry_at < 'infinity' AND retry_at <= now() ORDER BY retry_at LIMIT $2 FOR UPDATE SKIP LOCKED
), fresh AS MATERIALIZED (
	SELECT entry, aggregate, ` + entryBytes + ` AS bytes FROM onceward.outbox
	WHERE outbox = $1 AND status = 'PENDING' AND retry_at IS NULL
	ORDER BY entry + 0 LIMIT greatest($3::bigint - (SELECT count(*) FROM again), 1) FOR UPDATE SKIP LOCKED
)
SELECT entry, coalesce(aggregate, ''), bytes, again FROM (SELECT *, true AS again FROM again UNION ALL SELECT *, false FROM fresh) AS taken ORDER BY entry`

// entryBytes is about how long an entry is. The server knows it without reading the value.
const entryBytes = `coalesce(octet_length(record_key), 0)::bigint + coalesce(octet_length(record_value), 0) + pg_column_size(header_values)`

const readEntries = `SELECT ` + entryColumns + ` FROM onceward.outbox WHERE entry = ANY($1) ORDER BY entry`

// firstOfOthers returns the first pending entry of each aggregate that this relay has not locked,
// and whether it waits: it has failed, or is held. Otherwise another relay has it, or it is beyond
// the batch. It is a statement of its own, which sees what has happened while the entries were
// locked.
const firstOfOthers = `
SELECT aggregate, o.entry, o.waits FROM unnest($2::text[]) AS a(aggregate) CROSS JOIN LATERAL (
	SELECT entry, retry_at IS NOT NULL AS waits FROM onceward.outbox o
	WHERE o.outbox = $1 AND o.aggregate = a.aggregate AND o.status = 'PENDING' AND o.entry <> ALL($3::bigint[])
	ORDER BY entry LIMIT 1
) AS o`

const markPublished = `
UPDATE onceward.outbox o SET status = 'PUBLISHED', published_at = clock_timestamp(), decided_by = $4, retry_at = NULL, class = NULL, reason = NULL,
	partition = p.partition, record_offset = p.record_offset
FROM unnest($1::bigint[], $2::int[], $3::bigint[]) AS p(entry, partition, record_offset) WHERE o.entry = p.entry`

const markFailed = `
UPDATE onceward.outbox SET attempts = attempts + $2, retry_at = clock_timestamp() + $3::interval, class = $4, reason = $5 WHERE entry = $1`

// Run publishes what was appended until the context ends, and returns nil then. Any other end is an
// error. It can be called again afterwards, and by as many processes as wanted.
func (o *Outbox) Run(ctx context.Context) error {
	if len(o.config.Client) == 0 {
		return o.failed("run", errors.New("Config.Client has no options: kgo.SeedBrokers at least"))
	}
	options := append([]kgo.Opt{kgo.ProducerLinger(0)}, o.config.Client...)
	client, err := kgo.NewClient(append(options,
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// The timeout of a record also ends the wait for an answer that does not come. The record
		// may be there then, and is published again.
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
	look := o.config.BatchRecords
	for failures := 0; ctx.Err() == nil; {
		published, held, err := o.batch(ctx, client, look)
		look = o.config.BatchRecords
		switch {
		case ctx.Err() != nil:
		case err == nil && held > 0:
			failures, look = 0, max(look, lookMax)
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

// batch publishes entries in one transaction, which locks them meanwhile, or holds entries. It
// returns how many. It looks at the given number of entries that have not failed. It runs at READ
// COMMITTED, because firstOfOthers has to see what is new.
func (o *Outbox) batch(ctx context.Context, client *kgo.Client, look int) (published, held int, err error) {
	t, err := o.config.Pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: work.Begin(pgx.ReadCommitted, o.config.IdleInTransaction)})
	if err != nil {
		return 0, 0, work.Failed("begin", err)
	}
	defer work.Rollback(ctx, t)
	conn := t.Conn()
	// When the server has ended the transaction, the network need not say so.
	limited, cancel := context.WithTimeout(ctx, o.config.IdleInTransaction)
	defer cancel()
	entries, held, err := o.take(limited, t, look)
	if err == nil && held > 0 {
		err = t.Commit(limited)
	}
	if err != nil || held > 0 {
		return 0, held, work.OfConnection(conn, work.Failed("take entries", err))
	}
	if len(entries) == 0 {
		return 0, 0, nil
	}
	if err := o.at(ctx, "taken"); err != nil {
		return 0, 0, err
	}
	sent := o.publish(ctx, client, chains(entries, o.together))
	if err := o.at(ctx, "published"); err != nil {
		return 0, 0, err
	}
	// A relay that stops still marks what the brokers have, or the next one publishes it again.
	mark, cancelMark := context.WithTimeout(context.WithoutCancel(ctx), o.config.IdleInTransaction)
	defer cancelMark()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(markFor, cancelMark) })()
	if err := o.mark(mark, t, sent); err != nil {
		o.metrics.unmarked.Add(float64(len(sent.published)))
		return 0, 0, work.OfConnection(conn, work.Failed("mark entries", err))
	}
	if err := o.at(ctx, "marked"); err != nil {
		return 0, 0, err
	}
	if err := t.Commit(mark); err != nil {
		o.metrics.unmarked.Add(float64(len(sent.published)))
		return 0, 0, work.OfConnection(conn, work.Failed("commit", err))
	}
	o.metrics.published.Add(float64(len(sent.published)))
	if err := o.at(ctx, "committed"); err != nil {
		return 0, 0, err
	}
	if sent.outage() {
		return 0, 0, sent.failed[0].err
	}
	return len(sent.published), 0, nil
}

// lockedEntry is a row of takeEntries.
type lockedEntry struct {
	Number    int64
	Aggregate string
	Bytes     int64
	Again     bool // it has failed before
}

// take locks entries and returns those that may be published: of each aggregate its first pending
// entries, without a gap. Together they have batchBytesMax, unless the first one alone has more. If
// it finds entries behind one that waits, or has failed before, it holds them instead, and returns
// how many.
func (o *Outbox) take(ctx context.Context, tx pgx.Tx, look int) (entries []*Entry, held int, err error) {
	again := (o.config.BatchRecords + 3) / 4
	rows, err := tx.Query(ctx, takeEntries, o.config.Name, again, look)
	if err != nil {
		return nil, 0, err
	}
	locked, err := pgx.CollectRows(rows, pgx.RowToStructByPos[lockedEntry])
	if err != nil || len(locked) == 0 {
		return nil, 0, err
	}
	first, err := o.firstOfOthers(ctx, tx, locked)
	if err != nil {
		return nil, 0, err
	}
	var numbers []int64
	var bytes int64
	blocked, full := map[int64][]int64{}, false // by the entry that waits
	for _, e := range locked {
		other, ok := first[e.Aggregate]
		if ok && e.Number > other.Number {
			if other.Waits {
				blocked[other.Number] = append(blocked[other.Number], e.Number)
			}
			continue
		}
		if e.Again && e.Aggregate != "" && !o.othersPass { // those behind it leave their room to others, also if it fails again
			first[e.Aggregate] = otherEntry{e.Number, true}
		}
		bytes += e.Bytes
		full = full || len(numbers) == o.config.BatchRecords || bytes > o.batchBytes && len(numbers) > 0
		if !full { // later ones of its aggregate must not pass it
			numbers = append(numbers, e.Number)
		}
	}
	if len(blocked) > 0 {
		if held, err = hold(ctx, tx, blocked); err != nil || held > 0 {
			return nil, held, err
		}
	}
	if len(numbers) == 0 {
		return nil, 0, nil
	}
	if rows, err = tx.Query(ctx, readEntries, numbers); err != nil {
		return nil, 0, err
	}
	entries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Entry, error) {
		e, err := scanEntry(row)
		return &e, err
	})
	return entries, 0, err
}

// otherEntry is an entry that this relay has not locked.
type otherEntry struct {
	Number int64
	Waits  bool
}

// firstOfOthers returns the result of the statement for the aggregates of entries that are locked.
func (o *Outbox) firstOfOthers(ctx context.Context, tx pgx.Tx, locked []lockedEntry) (map[string]otherEntry, error) {
	numbers := make([]int64, 0, len(locked))
	var names []string
	for _, e := range locked {
		numbers = append(numbers, e.Number)
		if e.Aggregate != "" {
			names = append(names, e.Aggregate)
		}
	}
	slices.Sort(names)
	first := map[string]otherEntry{}
	if names = slices.Compact(names); len(names) == 0 || o.othersPass {
		return first, nil
	}
	rows, err := tx.Query(ctx, firstOfOthers, o.config.Name, names, numbers)
	if err != nil {
		return nil, err
	}
	var aggregate string
	var other otherEntry
	_, err = pgx.ForEachRow(rows, []any{&aggregate, &other.Number, &other.Waits}, func() error {
		first[aggregate] = other
		return nil
	})
	return first, err
}

// mark writes the result of sending a batch to the table.
func (o *Outbox) mark(ctx context.Context, tx pgx.Tx, s sent) error {
	batch := &pgx.Batch{}
	if len(s.published) > 0 {
		var numbers, offsets []int64
		var partitions []int32
		var aggregates []string
		for _, p := range s.published {
			if p.entry.Aggregate != "" {
				aggregates = append(aggregates, p.entry.Aggregate)
			}
			numbers, partitions, offsets = append(numbers, p.entry.Number), append(partitions, p.record.Partition), append(offsets, p.record.Offset)
		}
		slices.Sort(aggregates)
		batch.Queue(markPublished, numbers, partitions, offsets, o.owner)
		batch.Queue(releaseHeld, o.config.Name, slices.Compact(aggregates), o.config.BatchRecords)
	}
	for _, f := range s.failed {
		class, reason := classOf(f.err), reasonOf(f.err)
		pause := work.Pause(f.entry.Attempts+1, o.config.RetryMin, o.config.RetryMax)
		counts := 1
		if s.outage() { // nothing is held against an entry, but others get their turn: they may have other brokers
			counts = 0
		}
		batch.Queue(markFailed, f.entry.Number, counts, pause, class.String(), reason)
		if counts == 0 {
			continue // the relay logs the outage
		}
		o.metrics.failures.WithLabelValues(o.config.Name, class.String()).Inc()
		o.config.Logger.Error("an event cannot be published, and holds up its aggregate", "entry", f.entry.Number, "topic", f.entry.Topic, "class", class,
			"attempts", f.entry.Attempts+1, "reason", reason)
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
