package pgsink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// partition names one partition of a topic.
type partition struct {
	topic string
	n     int32
}

// position is where an owner reads on, and the generation under which it may move the offset.
type position struct {
	next       int64
	generation int64
	epoch      int32 // the leader epoch of what is before next, -1 where it is not known
}

const knownPartitions = `SELECT partition FROM onceward.sink_offsets WHERE sink = $1 AND topic = $2`

// introduceOffset stores where a partition begins, before it has an owner.
const introduceOffset = `
INSERT INTO onceward.sink_offsets (sink, topic, partition, topic_id, next_offset, generation, owner)
VALUES ($1, $2, $3, $4, $5, 0, '') ON CONFLICT DO NOTHING`

// claimOffset makes the caller the owner. It waits for a transaction that is moving the offset, and
// returns where that has left it. It finds no row for an offset of another topic.
const claimOffset = `
UPDATE onceward.sink_offsets SET generation = generation + 1, owner = $5, claimed_at = now()
WHERE sink = $1 AND topic = $2 AND partition = $3 AND topic_id = $4
RETURNING next_offset, generation, leader_epoch`

// moveOffset moves the offset from where its owner has read on. It finds no row if there is another
// owner.
const moveOffset = `
UPDATE onceward.sink_offsets SET next_offset = $6, leader_epoch = $7, moved_at = now()
WHERE sink = $1 AND topic = $2 AND partition = $3 AND generation = $4 AND next_offset = $5`

// touchOffset writes as little as a transaction of the sink.
const touchOffset = `UPDATE onceward.sink_offsets SET owner = owner WHERE sink = $1 AND topic = $2 AND partition = $3`

// lookAtOffset waits for a transaction that has moved the offset and whose end is in doubt.
const lookAtOffset = `
SELECT generation, next_offset FROM onceward.sink_offsets WHERE sink = $1 AND topic = $2 AND partition = $3 FOR UPDATE`

// errOtherTopic: the stored offset is of a topic that is not there any more.
var errOtherTopic = errors.New("the topic was deleted and created again since the sink has read it, or its offset is gone: Reset makes the sink begin with the new one")

// unknown returns those of n partitions of a topic that the sink has no offset of, and whether it
// has one of any.
func (s *Sink) unknown(ctx context.Context, q interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, topic string, n int) (unknown []int32, some bool, err error) {
	rows, err := q.Query(ctx, knownPartitions, s.config.Name, topic)
	if err != nil {
		return nil, false, work.Failed("read offsets", err)
	}
	known, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	for p := range int32(n) {
		if !slices.Contains(known, p) {
			unknown = append(unknown, p)
		}
	}
	return unknown, len(known) > 0, work.Failed("read offsets", err)
}

// introduce stores where the partitions of a topic begin that the sink has no offset of: where
// begin says, or, if the topic is known already and has got more partitions, at their earliest
// records.
func (s *Sink) introduce(ctx context.Context, topic string, topicID [16]byte, earliest, begin map[int32]int64) error {
	err := pgx.BeginFunc(ctx, s.config.Pool, func(tx pgx.Tx) error {
		// Instances that start together agree on which of them is the first.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('pgsink ' || $1 || ' ' || $2, 0))", s.config.Name, topic); err != nil {
			return err
		}
		unknown, some, err := s.unknown(ctx, tx, topic, len(earliest))
		if err != nil {
			return err
		}
		if some {
			begin = earliest
		}
		for _, p := range unknown {
			if _, err := tx.Exec(ctx, introduceOffset, s.config.Name, topic, p, topicID, begin[p]); err != nil {
				return err
			}
		}
		return nil
	})
	return work.Failed("store where a topic begins", err)
}

// claim makes this instance the owner of a partition.
func (s *Sink) claim(ctx context.Context, p partition, topicID [16]byte) (at position, err error) {
	err = s.config.Pool.QueryRow(ctx, claimOffset, s.config.Name, p.topic, p.n, topicID, work.Owner()).Scan(&at.next, &at.generation, &at.epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return at, fmt.Errorf("topic %s, partition %d: %w", p.topic, p.n, errOtherTopic)
	}
	return at, work.Failed("claim an offset", err)
}

// transact runs f and moves the offset behind a batch in one transaction. The error is errFenced if
// the partition has another owner. An error of f is returned as it is.
func (w *worker) transact(ctx context.Context, b batch, f func(ctx context.Context, tx pgx.Tx) error) error {
	s := w.sink
	began := time.Now()
	defer func() { s.metrics.batch.Observe(time.Since(began).Seconds()) }()
	t, err := s.config.Pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: work.Begin(s.config.Isolation, s.config.IdleInTransaction)})
	if err != nil {
		return work.Failed("begin", err)
	}
	defer work.Rollback(ctx, t)
	conn := t.Conn()
	if err := s.at(ctx, "begun", w); err != nil {
		return err
	}
	if err := f(ctx, work.Lend(t)); err != nil {
		if byApply(ctx, err) {
			return err
		}
		return work.OfConnection(conn, err)
	}
	if err := work.LeftBy(conn); err != nil {
		return err
	}
	if err := s.at(ctx, "applied", w); err != nil {
		return err
	}
	moved, err := t.Exec(ctx, s.moveSQL, s.config.Name, w.topic, w.n, w.generation, w.next, b.next, b.epoch)
	if err != nil {
		return work.Failed("move an offset", err)
	}
	if moved.RowsAffected() != 1 {
		return w.fenced()
	}
	if err := s.at(ctx, "moved", w); err != nil {
		return err
	}
	commit := time.Now()
	if err := t.Commit(ctx); err != nil {
		// The connection belongs to the pool again, so only the error says what has happened.
		failed := work.Failed("commit", err)
		if work.RolledBack(err) {
			failed = &work.CallError{Err: failed} // a deferred constraint or trigger: by what Apply has written
		}
		if err := s.resolve(w, ctx, b.next, failed); err != nil {
			s.metrics.commitFailures.Inc()
			return err
		}
	}
	s.metrics.commit.Observe(time.Since(commit).Seconds())
	s.metrics.commits.Inc()
	return s.at(ctx, "committed", w)
}

// resolve finds out what has become of a commit that has returned an error: nil if it has taken
// effect, and otherwise what has failed.
func (w *worker) resolve(ctx context.Context, next int64, commitErr error) error {
	s := w.sink
	for attempt := 1; ; attempt++ {
		var generation, at int64
		err := s.config.Pool.QueryRow(ctx, lookAtOffset, s.config.Name, w.topic, w.n).Scan(&generation, &at)
		switch {
		case err == nil && generation == w.generation && at == next:
			s.metrics.tookEffect.Inc()
			return nil
		case err == nil && generation == w.generation && at == w.next:
			s.metrics.hadNoEffect.Inc()
			return commitErr
		case err == nil || errors.Is(err, pgx.ErrNoRows):
			return w.fenced() // the next owner reads the row
		case ctx.Err() != nil:
			return ctx.Err()
		case hopeless(err):
			return work.Failed("look at an offset", err)
		}
		s.config.Logger.Warn("a commit is in doubt, and the offset cannot be read yet", "topic", w.topic, "partition", w.n, "attempt", attempt,
			"reason", work.Reason(work.Failed("look at an offset", err)))
		if !work.Wait(ctx, w.stop, work.Pause(attempt, pauseMin, pauseMax)) {
			return errStopped // the next owner reads the row
		}
	}
}

// works says whether the server takes the sink's own writes, on a connection that Apply has not
// used.
func (w *worker) works() bool {
	ctx, cancel := w.untilStopped()
	defer cancel()
	_, err := w.sink.config.Pool.Exec(ctx, touchOffset, w.sink.config.Name, w.topic, w.n)
	return err == nil
}

func (w *worker) fenced() error {
	return fmt.Errorf("topic %s, partition %d, generation %d: %w", w.topic, w.n, w.generation, errFenced)
}
