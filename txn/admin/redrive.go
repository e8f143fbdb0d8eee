package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
)

// RedriveOptions say what is redriven and how.
type RedriveOptions struct {
	// Filter chooses the dead letters. Redriven ones are always left out.
	Filter DeadLetterFilter
	// DryRun makes every check and reports, but writes nothing.
	DryRun bool
	// Rate is how many records a second are redriven at most, 0 for no limit.
	Rate float64
	// DeathsMax leaves out records that have died so often. 0 is [RedriveDeathsMaxDefault], a
	// negative number no limit. A redrive does not take records that die while it runs.
	DeathsMax int
	// To is a topic to write to, instead of the one in which the record died last. The key is then
	// [DeadLetter.OwnKey], and the partition that of the key.
	To string
	// TimestampNow gives the records the present time as their timestamp. By default they keep
	// their own. A target topic with message.timestamp.type=LogAppendTime gives them the time of
	// the broker.
	TimestampNow bool
	// Repair gives the records, and those that are made from them, the mode topology.Repair. In
	// that mode they make no calls to other systems (package processors/effect). By default they
	// keep the mode in which they died.
	Repair bool
	// Step, if not nil, is called for every chosen dead letter with its outcome: after the commit
	// if it was redriven. An error of Step ends the redrive between two transactions, and is
	// returned as it is.
	Step func(DeadLetter, RedriveOutcome) error

	// named, if not nil, chooses among the dead letters of the filter, in their newest editions. With
	// partitions, others are not read.
	named      func(*DeadLetter) bool
	partitions map[int32]bool
	// batchMax bounds the records of a transaction; tests make it small.
	batchMax int
	// crash is called by tests at the points of a batch. Its error ends the redrive there, as a
	// kill does.
	crash func(point string) error
}

// RedriveDeathsMaxDefault is the default of [RedriveOptions.DeathsMax]: a record is redriven twice
// at most.
const RedriveDeathsMaxDefault = 3

// RedriveOutcome is the outcome for a dead letter. The texts are for programs and stay.
type RedriveOutcome string

// The outcomes. Only a Redriven record was written again, or would be without DryRun.
const (
	Redriven RedriveOutcome = "redriven"
	// LeftDeaths: it has died too often.
	LeftDeaths RedriveOutcome = "left: died too often"
	// LeftCut: the record was cut to fit into the dead-letter topic. Replace the cut parts with
	// [DeadLetters.Edit].
	LeftCut RedriveOutcome = "left: cut"
	// LeftReplay: the record died in a replay. The live application reads the same inputs, and
	// would get it again. Redrive it with DeadLetterFilter.Applications after the replay has
	// replaced the live application, or with Repair.
	LeftReplay RedriveOutcome = "left: died in a replay"
	// LeftNoTopic: the topic or the partition to write to does not exist.
	LeftNoTopic RedriveOutcome = "left: no such topic or partition"
	// LeftLoop: it would be written to the dead-letter topic itself.
	LeftLoop RedriveOutcome = "left: target is the dead-letter topic"
	// LeftTooLarge: with the headers of the dead letter the record is larger than the topic takes.
	LeftTooLarge RedriveOutcome = "left: too large for the topic"
	// LeftTooOld: the timestamp is older than the retention of the topic, which could delete the
	// record before it is read.
	LeftTooOld RedriveOutcome = "left: older than the topic keeps records"
	// LeftTimestamp: the timestamp is negative, or too far ahead of the clock. The limit is an
	// hour, or message.timestamp.after.max.ms of the target topic if that is less. If the setting
	// is unknown, the limit is zero. There is no check in two cases: the dead letter has the same
	// timestamp, which its topic has taken, or the target topic has
	// message.timestamp.type=LogAppendTime. In these cases an application can refuse the record
	// again, beyond txn.Config.MaxFutureTimestamp (an hour by default).
	LeftTimestamp RedriveOutcome = "left: timestamp negative or in the future"
	// LeftRefused: the cluster refuses the record. Either its timestamp is outside of the limits of
	// the topic (message.timestamp.before.max.ms, message.timestamp.after.max.ms), or it has no key
	// and the topic is compacted.
	LeftRefused RedriveOutcome = "left: refused by the cluster"
)

// RedriveReport is the result of a redrive, or with DryRun the expected one. Its JSON form is for
// programs, and its fields stay.
type RedriveReport struct {
	Topic  string `json:"topic"`
	DryRun bool   `json:"dry_run"`
	// Outcomes counts the chosen dead letters by outcome.
	Outcomes map[RedriveOutcome]int64 `json:"outcomes"`
	// Counts is what the topic held when the redrive began.
	Counts DeadLetterCounts `json:"counts"`
}

// redriveBatchMax bounds the records of a transaction. The cost of a transaction is small for so
// many records, and it is still short.
const redriveBatchMax = 500

// redriveBytesMax bounds a batch by its size.
const redriveBytesMax = 8 << 20

// Redrive writes the chosen records to the topics in which they died last. Key, value, headers and
// timestamp are the original or edited ones. The headers of the dead letter are added, so a record
// that dies again keeps its id.
//
// It is exactly once, and may be killed and repeated at any time; see [DeadLetters]. After an error
// the batches committed before it stay, and the report counts them. A record that the cluster
// refuses is an outcome and not an error, and the redrive continues. A missing permission is an
// error.
func (d *DeadLetters) Redrive(ctx context.Context, o RedriveOptions) (RedriveReport, error) {
	o.Filter.Redriven = false
	o.DeathsMax, o.batchMax = cmp.Or(o.DeathsMax, RedriveDeathsMaxDefault), cmp.Or(o.batchMax, redriveBatchMax)
	report := RedriveReport{Topic: d.topic, DryRun: o.DryRun, Outcomes: map[RedriveOutcome]int64{}}
	if o.Rate < 0 {
		return report, fmt.Errorf("redrive: %g records a second is no valid rate", o.Rate)
	}
	t, err := d.open(ctx)
	if err != nil {
		return report, err
	}
	defer t.close()
	r := &redrive{letterTopic: t, options: o, report: &report}
	if !o.DryRun {
		if r.writer, err = t.newWriter(ctx, d, r.batchBytes); err != nil {
			return report, err
		}
		defer r.writer.close()
	}
	for p := range t.info.Partitions {
		if o.partitions != nil && !o.partitions[p] {
			continue
		}
		if err = r.partition(ctx, p); err != nil {
			break
		}
	}
	report.Counts = t.counts
	return report, err
}

// redrive is one redrive under way. It belongs to one goroutine, except for batchBytes.
type redrive struct {
	*letterTopic
	options RedriveOptions
	report  *RedriveReport
	writer  *letterWriter
	targets targets
	// batch are the dead letters of the next transaction, bytes their size.
	batch []redriven
	bytes int
	// next is when the rate allows another batch.
	next time.Time
}

// redriven is a dead letter with the record to write.
type redriven struct {
	DeadLetter
	record *broker.Record
}

// partition redrives one partition of the dead-letter topic.
func (r *redrive) partition(ctx context.Context, p int32) error {
	// Not the last stable offset: committed marks of an earlier redrive can be behind an open
	// transaction.
	_, end, err := r.cluster.LogBounds(ctx, r.info.Name, p)
	if err != nil {
		return err
	}
	idx, err := r.index(ctx, p, end)
	if err != nil {
		return err
	}
	err = r.each(ctx, idx, func(l DeadLetter) error {
		if !r.options.Filter.Matches(&l) || r.options.named != nil && !r.options.named(&l) {
			return nil
		}
		rec, outcome, err := r.target(ctx, &l)
		switch {
		case err != nil:
			return err
		case outcome != Redriven || r.options.DryRun:
			return r.tell(l, outcome)
		}
		r.batch = append(r.batch, redriven{l, rec})
		r.bytes += recordSize(rec)
		if len(r.batch) < r.size() && r.bytes < redriveBytesMax {
			return nil
		}
		return r.flush(ctx, idx.end)
	})
	if err != nil {
		return err
	}
	return r.flush(ctx, idx.end)
}

func (r *redrive) tell(l DeadLetter, outcome RedriveOutcome) error {
	r.report.Outcomes[outcome]++
	if r.options.Step == nil {
		return nil
	}
	return r.options.Step(l, outcome)
}

// size is the most records of a batch: what the rate allows in a second, so that the rate is even.
func (r *redrive) size() int {
	if r.options.Rate > 0 {
		return min(r.options.batchMax, max(1, int(r.options.Rate)))
	}
	return r.options.batchMax
}

// target returns the record to write for a dead letter, or why it is left.
func (r *redrive) target(ctx context.Context, l *DeadLetter) (*broker.Record, RedriveOutcome, error) {
	if r.options.DeathsMax > 0 && l.Deaths >= r.options.DeathsMax {
		return nil, LeftDeaths, nil
	}
	if l.Cut != "" {
		return nil, LeftCut, nil
	}
	if l.inReplay() && !r.options.Repair && len(r.options.Filter.Applications) == 0 {
		return nil, LeftReplay, nil
	}
	topic := cmp.Or(r.options.To, l.To.Topic)
	if topic == r.info.Name {
		return nil, LeftLoop, nil
	}
	info, err := r.targetTopic(ctx, topic)
	if err != nil {
		return nil, "", err
	}
	rec := &broker.Record{Topic: topic, Partition: l.To.Partition, Key: l.Key, Value: l.Value, Timestamp: time.Now()}
	if !r.options.TimestampNow {
		at, now := l.RecordTime(), rec.Timestamp
		// A timestamp that the dead-letter topic has taken is taken again. Another one may be
		// refused, unless the target topic gives records its own time.
		unknown := at.UnixMilli() != l.Timestamp.UnixMilli() && !givesTime(info)
		if unknown && (at.UnixMilli() < 0 || at.After(now.Add(aheadMax(info)))) {
			return nil, LeftTimestamp, nil
		}
		rec.Timestamp = at
	}
	elsewhere := topic != l.To.Topic
	if elsewhere {
		rec.Key = l.OwnKey()
	}
	if (r.options.To != "" || l.rekeyed) && info != nil && rec.Key != nil {
		rec.Partition = graph.PartitionOf(rec.Key, info.Partitions)
	}
	for _, h := range l.Headers {
		if elsewhere && h.Key == graph.HeaderOwnKey {
			continue // the record has it again
		}
		rec.Headers = append(rec.Headers, broker.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if r.options.Repair {
		rec.Headers = slices.DeleteFunc(rec.Headers, func(h broker.RecordHeader) bool { return h.Key == topology.HeaderMode })
		rec.Headers = append(rec.Headers, broker.RecordHeader{Key: topology.HeaderMode, Value: []byte(topology.Repair.String())})
	}
	for _, h := range l.about {
		// These describe the last death only, as our own headers do. An older build would take the
		// time for a header of the record, and keep it in the next dead letter.
		if strings.HasPrefix(h.Key, streamsHeaders) || h.Key == graph.HeaderLastTimestamp {
			continue
		}
		rec.Headers = append(rec.Headers, broker.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return rec, leftFor(info, rec), nil
}

// streamsHeaders begins the headers of Kafka Streams.
const streamsHeaders = "__streams.errors."

// aheadMax is how far ahead of the clock a timestamp may be. The topic has a limit, and so has an
// application that reads it: an hour by default (txn.Config.MaxFutureTimestamp).
func aheadMax(info *broker.TopicInfo) time.Duration {
	if info == nil {
		return 0
	}
	return time.Duration(min(numberOf(info, "message.timestamp.after.max.ms"), time.Hour.Milliseconds())) * time.Millisecond
}

// givesTime reports whether the broker replaces the timestamps of a topic by its own.
func givesTime(info *broker.TopicInfo) bool {
	return info != nil && info.Settings["message.timestamp.type"].Value == "LogAppendTime"
}

// leftFor returns why a record cannot be written to its topic, Redriven if it can.
func leftFor(info *broker.TopicInfo, rec *broker.Record) RedriveOutcome {
	if info == nil || rec.Partition >= info.Partitions {
		return LeftNoTopic
	}
	if limit := numberOf(info, "max.message.bytes"); limit > 0 && int64(recordSize(rec)) > limit {
		return LeftTooLarge
	}
	retention := time.Duration(numberOf(info, "retention.ms")) * time.Millisecond
	deletes := info.Settings["cleanup.policy"].Value != "compact" && !givesTime(info)
	if deletes && retention > 0 && time.Since(rec.Timestamp) > retention {
		return LeftTooOld
	}
	return Redriven
}

// recordSize is at least what a record takes as a batch of its own.
func recordSize(r *broker.Record) int {
	n := 128 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 8 + len(h.Key) + len(h.Value)
	}
	return n
}

// flush commits the batch with its marks. The partition was indexed up to end.
func (r *redrive) flush(ctx context.Context, end int64) error {
	batch := r.batch
	r.batch, r.bytes = nil, 0
	if len(batch) == 0 {
		return nil
	}
	if err := r.pace(ctx, len(batch)); err != nil {
		return err
	}
	return r.write(ctx, batch, end)
}

// write commits dead letters as one transaction. A refusal names only a partition. So a batch that
// is refused for good is written again in halves, until the refused record is alone.
func (r *redrive) write(ctx context.Context, batch []redriven, end int64) error {
	now := time.Now()
	var all written
	for i := range batch {
		l := &batch[i]
		to := TopicPartition{l.record.Topic, l.record.Partition}
		all.records = append(all.records, l.record)
		all.marks = append(all.marks, markOf(r.info.Name, &l.DeadLetter, to, now, r.writer.session))
	}
	last := &batch[len(batch)-1].DeadLetter
	done, err := r.writer.commit(ctx, all, func(ctx context.Context) (bool, error) {
		return r.committed(ctx, last, end)
	}, r.options.crash)
	if outcome, refused := r.refused(err); refused && !done {
		if len(batch) == 1 {
			return r.tell(batch[0].DeadLetter, outcome)
		}
		half := len(batch) / 2
		if err := r.write(ctx, batch[:half], end); err != nil {
			return err
		}
		return r.write(ctx, batch[half:], end)
	}
	if !done {
		return err
	}
	for i := range batch {
		if told := r.tell(batch[i].DeadLetter, Redriven); told != nil {
			return told
		}
	}
	return err
}

// refused reports whether the target topic will never take the record, with the outcome. A refused
// mark does not count: then the redrive itself is impossible.
func (r *redrive) refused(err error) (RedriveOutcome, bool) {
	var record *broker.ProduceError
	if !errors.As(err, &record) || record.Topic == r.info.Name || broker.ScopeOf(err) != broker.ScopeRecord {
		return "", false
	}
	if errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) {
		return LeftTooLarge, true
	}
	return LeftRefused, true
}

// committed reports whether the batch with that last dead letter was committed. The error is
// ErrRedriveFenced if another writer has redriven or edited dead letters of the partition since it
// was indexed up to end. Then the index is out of date.
func (r *redrive) committed(ctx context.Context, last *DeadLetter, end int64) (bool, error) {
	start, now, err := r.cluster.LogBounds(ctx, r.info.Name, last.Partition)
	if err != nil {
		return false, err
	}
	if start > end {
		return false, fmt.Errorf("the batch was not answered, and %s[%d] has lost the records from offset %d to %d, "+
			"which say what became of it", r.info.Name, last.Partition, end, start)
	}
	since, err := r.scan(ctx, last.Partition, end, now)
	if err != nil {
		return false, err
	}
	m, done := since.redriven[last.identity]
	done = done && m.session == r.writer.session
	for session := range since.sessions {
		if session != r.writer.session {
			return done, ErrRedriveFenced
		}
	}
	return done, nil
}

// pace waits until the rate allows so many more records. No transaction is open meanwhile.
func (r *redrive) pace(ctx context.Context, records int) error {
	if r.options.Rate <= 0 {
		return nil
	}
	now := time.Now()
	if wait := r.next.Sub(now); wait > 0 {
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
		now = r.next
	}
	r.next = now.Add(time.Duration(float64(records) / r.options.Rate * float64(time.Second)))
	return nil
}
