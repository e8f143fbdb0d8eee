package pgsink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// refusal is why a record is refused.
type refusal struct {
	class    topology.Class
	err      error
	attempts int
	first    time.Time
}

// refuse moves past the record of a batch of one, which cannot be applied, and keeps it elsewhere.
// It tries until that has succeeded.
func (w *worker) refuse(b batch, err error, attempts int, first time.Time) error {
	why := refusal{class: postgres.ClassOf(err), err: err, attempts: attempts, first: first}
	w.sink.config.Logger.Error("a record is refused", "topic", w.topic, "partition", w.n, "offset", b.records[0].Offset, "class", why.class,
		"attempts", attempts, "reason", work.Reason(err), "to", w.sink.refuge())
	if err := w.insist(func() error { return w.quarantine(b, why) }); err != nil {
		return err
	}
	return w.sendLetters()
}

// insist calls f until it succeeds, the worker is told to stop, or another try would not help.
func (w *worker) insist(f func() error) error {
	for failures := 1; ; failures++ {
		if w.stopped() {
			return errStopped
		}
		err := f()
		switch {
		case err == nil:
			return nil
		case w.stopped() && !errors.Is(err, errFenced):
			return errStopped
		}
		if class := postgres.ClassOf(err); (!work.Own(err) || hopeless(err)) && class != topology.Transient && class != topology.Overload {
			return err // errFenced, a missing table, a topic that is not there
		}
		w.sink.config.Logger.Warn("a record that is refused cannot be kept yet", "topic", w.topic, "partition", w.n, "failures", failures,
			"reason", work.Reason(err))
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
	header_values, class, reason, attempts, first_failure, letter_topic, time_type)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, nullif($15::text, ''), $16)
ON CONFLICT DO NOTHING` // after SetOffset the record may be there already

const lettersToSend = `SELECT ` + recordColumns + `, topic_id, letter_topic FROM onceward.sink_quarantine
WHERE sink = $1 AND topic = $2 AND partition = $3 AND letter_topic IS NOT NULL ORDER BY record_offset LIMIT 100`

const letterSent = `DELETE FROM onceward.sink_quarantine
WHERE sink = $1 AND topic = $2 AND partition = $3 AND record_offset = $4 AND topic_id = $5`

const letterStays = `UPDATE onceward.sink_quarantine SET letter_topic = NULL
WHERE sink = $1 AND topic = $2 AND partition = $3 AND record_offset = $4 AND topic_id = $5`

// quarantine keeps the record in the table, in the transaction that moves past it. Dead letters are
// sent from there, behind the fence: one that is sent is one of a record that no owner applies any
// more.
func (w *worker) quarantine(b batch, why refusal) error {
	r := b.records[0]
	keys, values := make([][]byte, len(r.Headers)), make([][]byte, len(r.Headers))
	for i, h := range r.Headers {
		keys[i], values[i] = []byte(h.Key), h.Value
	}
	count := w.sink.metrics.quarantined.Add
	if w.sink.config.DeadLetterTopic != "" {
		count = w.sink.metrics.deadLettered.Add
	}
	return w.pass(b, count, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertQuarantine, w.sink.config.Name, w.topic, w.n, r.Offset, w.topicID, r.Timestamp.UnixMilli(), r.Key, r.Value, keys,
			values, why.class.String(), work.Reason(why.err), why.attempts, why.first, w.sink.config.DeadLetterTopic, r.Attrs.TimestampType())
		return work.Failed("quarantine a record", err)
	})
}

// sendLetters sends the dead letters of the partition that wait in the table, in the order of their
// records. A crash in between sends one again, with the same id.
func (w *worker) sendLetters() error {
	for {
		var letters []deadLetter
		err := w.insist(func() error {
			rows, err := w.sink.config.Pool.Query(w.ctx, lettersToSend, w.sink.config.Name, w.topic, w.n)
			if err == nil {
				letters, err = pgx.CollectRows(rows, scanLetter)
			}
			return work.Failed("read dead letters", err)
		})
		if err != nil || len(letters) == 0 {
			return err
		}
		for _, l := range letters {
			if err := w.insist(func() error { return w.send(l) }); err != nil {
				return err
			}
		}
	}
}

// deadLetter is a dead letter to send.
type deadLetter struct {
	Refused
	topicID [16]byte
	to      string
}

func scanLetter(row pgx.CollectableRow) (l deadLetter, err error) {
	l.Refused, err = scanRefused(row, &l.topicID, &l.to)
	return l, err
}

// send sends a dead letter and takes it out of the table. One that the topic does not take stays
// there as a record in quarantine.
func (w *worker) send(l deadLetter) error {
	ctx, cancel := w.untilStopped()
	defer cancel()
	r, then := l.Record, letterSent
	err := w.session.client.ProduceSync(ctx, &kgo.Record{
		Topic: l.to, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: w.letterHeaders(l.Refused, time.Now()),
	}).FirstErr()
	switch {
	case errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) || errors.Is(err, kerr.InvalidTimestamp) ||
		errors.Is(err, kerr.InvalidRecord):
		then = letterStays
		w.sink.config.Logger.Error("the dead-letter topic does not take a record, which stays in quarantine", "topic", w.topic, "partition", w.n,
			"offset", r.Offset, "to", l.to, "error", err)
	case err != nil:
		return fmt.Errorf("topic %s, partition %d, offset %d: write the dead letter to %s: %w", w.topic, w.n, r.Offset, l.to, err)
	}
	if err := w.sink.at(ctx, "sent", w); err != nil {
		return err
	}
	_, err = w.sink.config.Pool.Exec(ctx, then, w.sink.config.Name, w.topic, w.n, r.Offset, l.topicID)
	return work.Failed("remove a dead letter that was sent", err)
}

// untilStopped returns a context that also ends when the worker is told to stop: a revoke does not
// wait for a broker that is down.
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

// The limits of dead letters, as package topology reads them.
const (
	letterReasonMax = 512
	letterDeathsMax = math.MaxInt32 - 1
)

// cut returns the text, without its end if it has more than n bytes.
func cut(text string, n int) string {
	if len(text) > n {
		text = strings.ToValidUTF8(text[:n], "")
	}
	return text
}

// letterTime is the form of times in dead letters.
const letterTime = "2006-01-02T15:04:05.000Z07:00"

// letterHeaders returns the headers of a dead letter as package topology describes them: those of
// the record, and where and why it died.
func (w *worker) letterHeaders(f Refused, now time.Time) []kgo.RecordHeader {
	r := f.Record
	var own []kgo.RecordHeader
	before := make([]topology.Header, 0, len(r.Headers))
	for _, h := range r.Headers {
		before = append(before, topology.Header{Key: h.Key, Value: h.Value})
		if !graph.IsDeadLetterHeader(h.Key) {
			own = append(own, h)
		}
	}
	origin := graph.DeadLetterOrigin{Topic: w.topic, Partition: w.n, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli()}
	if f.logAppendTime {
		origin.TimestampType = graph.LogAppendTime
	}
	life, err := graph.ParseDeadLetter(before)
	if err != nil || life.Application != w.sink.config.Name { // it dies for the first time here; how often it died elsewhere counts
		life = graph.DeadLetterInfo{
			ID: graph.DeadLetterID(w.sink.config.Name, origin), Origin: origin, FirstFailure: f.FirstFailure, Deaths: life.Deaths,
		}
	}
	all := own
	add := func(key, value string) { all = append(all, kgo.RecordHeader{Key: key, Value: []byte(value)}) }
	add(graph.HeaderID, life.ID)
	add(graph.HeaderApplication, w.sink.config.Name)
	add(graph.HeaderVersion, "pgsink")
	add(graph.HeaderTask, "0_"+strconv.Itoa(int(w.n)))
	add(graph.HeaderNode, "pgsink")
	add(graph.HeaderClass, f.Class.String())
	add(graph.HeaderMessage, cut(f.Reason, letterReasonMax))
	add(graph.HeaderAttempts, strconv.Itoa(f.Attempts))
	add(graph.HeaderFirstFailure, life.FirstFailure.UTC().Format(letterTime))
	add(graph.HeaderLastFailure, now.UTC().Format(letterTime))
	add(graph.HeaderTopic, life.Origin.Topic)
	add(graph.HeaderPartition, strconv.Itoa(int(life.Origin.Partition)))
	add(graph.HeaderOffset, strconv.FormatInt(life.Origin.Offset, 10))
	add(graph.HeaderTimestamp, strconv.FormatInt(life.Origin.Timestamp, 10))
	add(graph.HeaderTimestampType, life.Origin.TimestampType.String())
	add(graph.HeaderLastTimestamp, strconv.FormatInt(r.Timestamp.UnixMilli(), 10))
	add(graph.HeaderDeaths, strconv.Itoa(min(life.Deaths, letterDeathsMax-1)+1))
	return all
}
