package pgsink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// Refused is a record in quarantine.
type Refused struct {
	// Record is the record as it was read: key, value, headers, time and place.
	Record *kgo.Record
	// Class and Reason say why it was refused. The reason quotes nothing of the record.
	Class  topology.Class
	Reason string
	// Attempts is how often it was tried by itself.
	Attempts      int
	FirstFailure  time.Time
	QuarantinedAt time.Time

	logAppendTime bool
}

const recordColumns = `topic, partition, record_offset, record_time, record_key, record_value, header_keys, header_values,
	class, reason, attempts, first_failure, quarantined_at, time_type`

// scanRefused reads a row of recordColumns, and of more columns.
func scanRefused(row pgx.CollectableRow, more ...any) (f Refused, err error) {
	r := &kgo.Record{}
	var at int64
	var keys, values [][]byte
	var class string
	var timeType int16
	err = row.Scan(append([]any{&r.Topic, &r.Partition, &r.Offset, &at, &r.Key, &r.Value, &keys, &values, &class, &f.Reason, &f.Attempts, &f.FirstFailure, &f.QuarantinedAt,
		&timeType}, more...)...)
	if err != nil {
		return f, err
	}
	f.logAppendTime = timeType == 1
	r.Timestamp = time.UnixMilli(at)
	for i := range min(len(keys), len(values)) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: string(keys[i]), Value: values[i]})
	}
	f.Record = r
	f.Class, err = graph.ParseClass(class)
	return f, err
}

func refused(row pgx.CollectableRow) (Refused, error) { return scanRefused(row) }

// Quarantined returns the records of a sink in quarantine, the oldest first and at most limit of
// them.
func Quarantined(ctx context.Context, pool *pgxpool.Pool, sink string, limit int) ([]Refused, error) {
	rows, err := pool.Query(ctx, `SELECT `+recordColumns+` FROM onceward.sink_quarantine WHERE sink = $1 AND letter_topic IS NULL
		ORDER BY quarantined_at, topic, partition, record_offset LIMIT $2`, sink, limit)
	if err == nil {
		var all []Refused
		if all, err = pgx.CollectRows(rows, refused); err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("pgsink: %s: list the quarantine: %w", sink, err)
}

// ErrNotQuarantined: the record is not in quarantine, or not any more.
var ErrNotQuarantined = errors.New("the record is not in quarantine")

// Requeue applies a record from quarantine and removes it from there, in one transaction. It is
// applied behind all that was applied since, so it is for records whose order does not count any
// more. An error leaves it in quarantine, but for one of the COMMIT, which may have taken effect:
// calling Requeue again tells, by ErrNotQuarantined. If the topic was created again and both
// records of one offset are there, both are applied.
func (s *Sink) Requeue(ctx context.Context, topic string, partition int32, offset int64) error {
	err := pgx.BeginTxFunc(ctx, s.config.Pool, pgx.TxOptions{BeginQuery: work.Begin(s.config.Isolation, s.config.IdleInTransaction)}, func(t pgx.Tx) error {
		rows, err := t.Query(ctx, `DELETE FROM onceward.sink_quarantine WHERE sink = $1 AND topic = $2 AND partition = $3 AND record_offset = $4 AND letter_topic IS NULL
			RETURNING `+recordColumns, s.config.Name, topic, partition, offset)
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(rows, refused)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return ErrNotQuarantined
		}
		for _, f := range all {
			if err := s.call(ctx, work.Lend(t), []*kgo.Record{f.Record}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pgsink: %s: requeue topic %s, partition %d, offset %d: %w", s.config.Name, topic, partition, offset, err)
	}
	return nil
}

// Discard removes a record from quarantine without an effect. Nothing is kept of the record.
func Discard(ctx context.Context, pool *pgxpool.Pool, sink, topic string, partition int32, offset int64) error {
	gone, err := pool.Exec(ctx, `DELETE FROM onceward.sink_quarantine
		WHERE sink = $1 AND topic = $2 AND partition = $3 AND record_offset = $4 AND letter_topic IS NULL`, sink, topic, partition, offset)
	if err == nil && gone.RowsAffected() == 0 {
		err = ErrNotQuarantined
	}
	if err != nil {
		return fmt.Errorf("pgsink: %s: discard topic %s, partition %d, offset %d: %w", sink, topic, partition, offset, err)
	}
	return nil
}
