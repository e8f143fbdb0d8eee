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
	// Filter chooses the letters; those that were redriven already are left out whatever it says.
	Filter LetterFilter
	// DryRun finds out what would be done, with every check, and does nothing.
	DryRun bool
	// Rate is how many records a second are redriven at most, 0 for no limit.
	Rate float64
	// DeathsMax guards against records that die again and again: one that has died so often is left out. 0 is
	// [RedriveDeathsMaxDefault], a negative number no limit. What dies while a redrive runs is not redriven by it.
	DeathsMax int
	// To is a topic to write to instead of the one in which the record died last; the key is then [DeadLetter.OwnKey], and the
	// partition that of the key.
	To string
	// TimestampNow gives the records the present time as their timestamp. By default they keep theirs, whatever the clock of the
	// dead-letter topic; a topic to write to that has message.timestamp.type=LogAppendTime gives them the broker's.
	TimestampNow bool
	// Repair has the records say that they come again: with the mode topology.Repair they have no effects outside (package
	// processors/effect), and what is made of them says so too. By default they keep the mode in which they died.
	Repair bool
	// Step is told of every letter that was chosen, when it is known what becomes of it: after the commit for those that were
	// redriven. It may be nil. An error of Step ends the redrive between two transactions, and is returned as it is.
	Step func(DeadLetter, RedriveOutcome) error

	// batchMax bounds the records of a transaction; tests make it small.
	batchMax int
	// crash is called at the points of a batch by tests; what it returns ends the redrive there, as if the process had been
	// killed.
	crash func(point string) error
}

// RedriveDeathsMaxDefault is how often a record may have died, unless [RedriveOptions.DeathsMax] says otherwise: it is redriven
// twice at most.
const RedriveDeathsMaxDefault = 3

// RedriveOutcome is what became of a letter. The texts are for programs and stay.
type RedriveOutcome string

// The outcomes. Only Redriven letters were, or with DryRun would be, written again.
const (
	Redriven RedriveOutcome = "redriven"
	// LeftDeaths: it has died too often.
	LeftDeaths RedriveOutcome = "left: died too often"
	// LeftCut: it was cut to fit into the dead-letter topic, and is not the record any more. An edition of what was cut is the
	// way out ([DeadLetters.Edit]).
	LeftCut RedriveOutcome = "left: cut"
	// LeftReplay: it died in a replay, whose inputs the live application reads too: it would get the record again. Redrive such letters
	// under LetterFilter.Applications once the replay has taken the place of the other application, or with Repair.
	LeftReplay RedriveOutcome = "left: died in a replay"
	// LeftNoTopic: the topic or the partition to write to does not exist.
	LeftNoTopic RedriveOutcome = "left: no such topic or partition"
	// LeftLoop: it would be written to the dead-letter topic itself.
	LeftLoop RedriveOutcome = "left: target is the dead-letter topic"
	// LeftTooLarge: with what says where it comes from it is larger than the topic takes.
	LeftTooLarge RedriveOutcome = "left: too large for the topic"
	// LeftTooOld: its timestamp is further back than the topic keeps records, so that it could be deleted before it is read.
	LeftTooOld RedriveOutcome = "left: older than the topic keeps records"
	// LeftTimestamp: its timestamp is negative, or it is further ahead of the clock than an hour, or than the topic takes
	// (message.timestamp.after.max.ms; if that is not known, at all). That is not looked at where the letter has the timestamp too, because
	// its topic has taken it, nor where the topic to write to has message.timestamp.type=LogAppendTime, which takes any: an application
	// that reads what is more than an hour ahead refuses it again, unless it takes more (txn.Config.MaxFutureTimestamp).
	LeftTimestamp RedriveOutcome = "left: timestamp negative or in the future"
	// LeftRefused: the cluster does not take it, because of its timestamp (message.timestamp.before.max.ms and
	// message.timestamp.after.max.ms of the topic) or because it has no key and the topic is compacted.
	LeftRefused RedriveOutcome = "left: refused by the cluster"
)

// RedriveReport is what a redrive has done, or with DryRun would do. Its JSON form is for programs, and its fields stay.
type RedriveReport struct {
	Topic  string `json:"topic"`
	DryRun bool   `json:"dry_run"`
	// Outcomes counts the letters that were chosen by what became of them.
	Outcomes map[RedriveOutcome]int64 `json:"outcomes"`
	// Counts is what the topic held when the redrive began.
	Counts LetterCounts `json:"counts"`
}

// redriveBatchMax bounds the records of a transaction: enough to make its cost small, few enough to take no time.
const redriveBatchMax = 500

// redriveBytesMax bounds a batch by its size.
const redriveBytesMax = 8 << 20

// Redrive writes the chosen letters to where their records died last, with key, value, headers and timestamp as they were, or as
// they were edited, and with the headers that say of their deaths: if they die again, they are the same records. It is exactly
// once, and may be killed and done again at any time; see [DeadLetters]. An error leaves what was committed before it, which the
// report counts. A record that the cluster refuses is no error, and the letters behind it are redriven; a permission that is
// missing is one.
func (d *DeadLetters) Redrive(ctx context.Context, o RedriveOptions) (RedriveReport, error) {
	o.Filter.Redriven = false
	o.DeathsMax, o.batchMax = cmp.Or(o.DeathsMax, RedriveDeathsMaxDefault), cmp.Or(o.batchMax, redriveBatchMax)
	report := RedriveReport{Topic: d.topic, DryRun: o.DryRun, Outcomes: map[RedriveOutcome]int64{}}
	if o.Rate < 0 {
		return report, fmt.Errorf("redrive: a rate of %g records a second is none", o.Rate)
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
	// batch are the letters of the next transaction, bytes their size.
	batch []redriven
	bytes int
	// next is when the rate allows another batch.
	next time.Time
}

// redriven is a letter with the record that it becomes.
type redriven struct {
	DeadLetter
	record *broker.Record
}

// partition redrives what is in one partition of the dead-letter topic.
func (r *redrive) partition(ctx context.Context, p int32) error {
	// Not the last stable offset: a mark of an earlier redrive can be behind a transaction that is open, and be committed.
	_, end, err := r.cluster.LogBounds(ctx, r.info.Name, p)
	if err != nil {
		return err
	}
	idx, err := r.index(ctx, p, end)
	if err != nil {
		return err
	}
	err = r.each(ctx, idx, func(l DeadLetter) error {
		if !r.options.Filter.Chooses(&l) {
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

// size is how many records a batch may have: what the rate allows in a second, so that it is kept evenly.
func (r *redrive) size() int {
	if r.options.Rate > 0 {
		return min(r.options.batchMax, max(1, int(r.options.Rate)))
	}
	return r.options.batchMax
}

// target returns the record that a letter becomes, or why it is left where it is.
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
		// What the dead-letter topic has taken is taken again. A letter with another time does not show whether a topic takes the record's,
		// unless it gives records a time of its own.
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
		// They tell of the last death alone, which ours do too; and an older build, in which the record dies again, would take the
		// time for a header of the record's own, and leave it there for the letter.
		if strings.HasPrefix(h.Key, streamsHeaders) || h.Key == graph.HeaderLastTimestamp {
			continue
		}
		rec.Headers = append(rec.Headers, broker.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return rec, leftFor(info, rec), nil
}

// streamsHeaders begins the headers of Kafka Streams.
const streamsHeaders = "__streams.errors."

// aheadMax is how far ahead of the clock the timestamp of a record may be for the topic, as far as it is known, and for an application that
// reads it, which takes an hour by default (txn.Config.MaxFutureTimestamp).
func aheadMax(info *broker.TopicInfo) time.Duration {
	if info == nil {
		return 0
	}
	return time.Duration(min(numberOf(info, "message.timestamp.after.max.ms"), time.Hour.Milliseconds())) * time.Millisecond
}

// givesTime reports whether the broker gives the records of a topic their time, whatever the one is that they come with.
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

// flush commits the batch, with its marks. The letters are as the partition says in front of end.
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

// write commits letters as one transaction. The cluster says of a refusal only to which partition it was, so that what is refused
// for good is written again in halves, until the letter that is to blame is alone.
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

// refused reports whether the error says that a record can never be written where it is to go, and how its letter is left
// then. If it is a mark that is refused, it is the redrive that is impossible.
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

// committed reports whether the batch with that last letter was committed. The error is ErrRedriveFenced if somebody else has
// redriven or edited what is in the partition, since it was indexed up to end: then the batch, and what the index says of the
// letters behind it, may be done already. If nobody has, both are as true as they were.
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

// pace waits until the rate allows so many records more. No transaction is open meanwhile.
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
