package pgsink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Offset is where a sink reads a partition next.
type Offset struct {
	Topic     string
	Partition int32
	// Next is the offset of the next record: every record before it was applied or refused.
	Next int64
	// Generation counts the owners of the partition. Owner names the process of the latest one.
	Generation int64
	Owner      string
	// ClaimedAt is when the owner got the partition, and MovedAt when Next has moved. MovedAt is
	// zero before the first record.
	ClaimedAt time.Time
	MovedAt   time.Time
}

// Offsets returns the offsets of a sink, by topic and partition.
func Offsets(ctx context.Context, pool *pgxpool.Pool, sink string) ([]Offset, error) {
	rows, err := pool.Query(ctx, `SELECT topic, partition, next_offset, generation, owner, claimed_at, moved_at FROM onceward.sink_offsets
		WHERE sink = $1 ORDER BY topic, partition`, sink)
	if err == nil {
		var all []Offset
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o Offset, err error) {
			var moved *time.Time
			err = row.Scan(&o.Topic, &o.Partition, &o.Next, &o.Generation, &o.Owner, &o.ClaimedAt, &moved)
			if moved != nil {
				o.MovedAt = *moved
			}
			return o, err
		})
		if err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("pgsink: %s: list offsets: %w", sink, err)
}

const setOffset = `
UPDATE onceward.sink_offsets SET next_offset = $4, leader_epoch = -1, generation = generation + 1, owner = ''
WHERE sink = $1 AND topic = $2 AND partition = $3 AND $4 >= 0`

// SetOffset has the next owner of a partition read on at the given offset, whatever lies between.
// It is for an operator, after records were deleted before they were read, or a log was cut. The
// operator has to know which records are applied twice or never by that. Stop the sink before: an
// instance that runs is fenced.
func SetOffset(ctx context.Context, pool *pgxpool.Pool, sink, topic string, partition int32, offset int64) error {
	set, err := pool.Exec(ctx, setOffset, sink, topic, partition, offset)
	switch {
	case err != nil:
	case offset < 0:
		err = fmt.Errorf("an offset is 0 or more, not %d", offset)
	case set.RowsAffected() == 0:
		err = errors.New("the sink has no offset of it")
	}
	if err != nil {
		return fmt.Errorf("pgsink: set the offset of %s, topic %s, partition %d: %w", sink, topic, partition, err)
	}
	return nil
}

// Reset removes what a sink knows of a topic: its next owner begins where [Config.Start] says. It
// is for a topic that was deleted and created again, and for an application that begins from
// scratch; records that were applied are applied again if they are still there. Stop the sink
// before: an instance that runs is fenced.
func Reset(ctx context.Context, pool *pgxpool.Pool, sink, topic string) error {
	if _, err := pool.Exec(ctx, "DELETE FROM onceward.sink_offsets WHERE sink = $1 AND topic = $2", sink, topic); err != nil {
		return fmt.Errorf("pgsink: reset topic %s of %s: %w", topic, sink, err)
	}
	return nil
}
