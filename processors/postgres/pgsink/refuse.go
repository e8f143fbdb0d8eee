package pgsink

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

// refusal is why a record is refused.
type refusal struct {
	class    topology.Class
	err      error
	attempts int
	first    time.Time
}

// refuse moves past the record of a batch of one, which cannot be applied, and keeps it elsewhere. It tries until that has succeeded.
func (w *worker) refuse(b batch, err error, attempts int, first time.Time) error {
	r := b.records[0]
	why := refusal{class: postgres.ClassOf(err), err: err, attempts: attempts, first: first}
	w.sink.config.Logger.Error("a record is refused", "topic", w.topic, "partition", w.n, "offset", r.Offset, "class", why.class, "attempts", attempts,
		"reason", work.Reason(err), "to", w.sink.refuge())
	for failures := 1; ; failures++ {
		if w.stopped() {
			return errStopped
		}
		var err error
		if w.sink.config.DeadLetterTopic != "" {
			err = w.deadLetter(b, why)
		} else {
			err = w.quarantine(b, why)
		}
		switch {
		case err == nil:
			return nil
		case w.stopped() && !errors.Is(err, errFenced):
			return errStopped
		}
		if class := postgres.ClassOf(err); (!isOwn(err) || hopeless(err)) && class != topology.Transient && class != topology.Overload {
			return err // errFenced, a missing table, a topic that does not take the letter
		}
		if !work.Wait(w.ctx, w.stop, work.Pause(failures, pauseMin, pauseMax)) {
			return errStopped
		}
	}
}

// refuge is where refused records go, for people.
func (s *Sink) refuge() string {
	if s.config.DeadLetterTopic != "" {
		return "topic " + s.config.DeadLetterTopic
	}
	return "table onceward.sink_quarantine"
}

const insertQuarantine = `
INSERT INTO onceward.sink_quarantine (sink, topic, partition, record_offset, topic_id, record_time, record_key, record_value, header_keys,
	header_values, class, reason, attempts, first_failure)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT DO NOTHING` // after a Reset the record may be there already

// quarantine keeps the record in the table, in the transaction that moves past it.
func (w *worker) quarantine(b batch, why refusal) error {
	r := b.records[0]
	keys, values := make([][]byte, len(r.Headers)), make([][]byte, len(r.Headers))
	for i, h := range r.Headers {
		keys[i], values[i] = []byte(h.Key), h.Value
	}
	return w.pass(b, w.sink.metrics.quarantined.Add, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertQuarantine, w.sink.config.Name, w.topic, w.n, r.Offset, w.topicID, r.Timestamp.UnixMilli(), r.Key, r.Value, keys,
			values, why.class.String(), work.Reason(why.err), why.attempts, why.first)
		return own("quarantine a record", err)
	})
}

// deadLetter writes the record to the dead-letter topic, and then moves past it.
func (w *worker) deadLetter(b batch, why refusal) error {
	r := b.records[0]
	letter := &kgo.Record{
		Topic: w.sink.config.DeadLetterTopic, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: w.letterHeaders(r, why, time.Now()),
	}
	ctx, cancel := w.untilStopped()
	defer cancel()
	if err := w.session.client.ProduceSync(ctx, letter).FirstErr(); err != nil {
		return fmt.Errorf("topic %s, partition %d, offset %d: write the dead letter to %s: %w", w.topic, w.n, r.Offset, w.sink.config.DeadLetterTopic, err)
	}
	return w.pass(b, w.sink.metrics.deadLettered.Add, func(context.Context, pgx.Tx) error { return nil })
}

// untilStopped returns a context that also ends when the worker is told to stop: a revoke does not wait for a broker that is down.
func (w *worker) untilStopped() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(w.ctx)
	go func() {
		select {
		case <-w.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// letterTime is the form of times in dead letters.
const letterTime = "2006-01-02T15:04:05.000Z07:00"

// letterHeaders returns the headers of a dead letter as package topology describes them: those of the record, and where and why it died.
func (w *worker) letterHeaders(r *kgo.Record, why refusal, now time.Time) []kgo.RecordHeader {
	var own []kgo.RecordHeader
	before := make([]topology.Header, 0, len(r.Headers))
	for _, h := range r.Headers {
		before = append(before, topology.Header{Key: h.Key, Value: h.Value})
		if !topology.IsDeadLetterHeader(h.Key) {
			own = append(own, h)
		}
	}
	origin := topology.DeadLetterOrigin{Topic: w.topic, Partition: w.n, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli()}
	if r.Attrs.TimestampType() == 1 {
		origin.TimestampType = topology.LogAppendTime
	}
	life, err := topology.ParseDeadLetter(before)
	if err != nil || life.Application != w.sink.config.Name { // it dies for the first time here; how often it died elsewhere counts
		life = topology.DeadLetterInfo{
			ID: topology.DeadLetterID(w.sink.config.Name, origin), Origin: origin, FirstFailure: why.first, Deaths: life.Deaths,
		}
	}
	all := own
	add := func(key, value string) { all = append(all, kgo.RecordHeader{Key: key, Value: []byte(value)}) }
	add(topology.HeaderID, life.ID)
	add(topology.HeaderApplication, w.sink.config.Name)
	add(topology.HeaderVersion, "pgsink")
	add(topology.HeaderTask, "0_"+strconv.Itoa(int(w.n)))
	add(topology.HeaderNode, "pgsink")
	add(topology.HeaderClass, why.class.String())
	add(topology.HeaderMessage, work.Reason(why.err))
	add(topology.HeaderAttempts, strconv.Itoa(why.attempts))
	add(topology.HeaderFirstFailure, life.FirstFailure.UTC().Format(letterTime))
	add(topology.HeaderLastFailure, now.UTC().Format(letterTime))
	add(topology.HeaderTopic, life.Origin.Topic)
	add(topology.HeaderPartition, strconv.Itoa(int(life.Origin.Partition)))
	add(topology.HeaderOffset, strconv.FormatInt(life.Origin.Offset, 10))
	add(topology.HeaderTimestamp, strconv.FormatInt(life.Origin.Timestamp, 10))
	add(topology.HeaderTimestampType, life.Origin.TimestampType.String())
	add(topology.HeaderLastTimestamp, strconv.FormatInt(r.Timestamp.UnixMilli(), 10))
	add(topology.HeaderDeaths, strconv.Itoa(life.Deaths+1))
	return all
}
