package hanging

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
)

// Search says where to look for open transactions, and what is known of them already.
type Search struct {
	// Application names the transactional ids that are the application's own.
	Application string
	// Partitions are asked for what they hold open.
	Partitions map[string][]int32
	// Logs are read for markers of what hangs, beside Partitions. They are not asked.
	Logs map[string][]int32
	// Internal are topics to which only the application writes: a producer of an open transaction
	// there is one of its own, also if no coordinator knows it any more.
	Internal map[string]bool
	// ReadOnly are topics that the application reads and does not write. Their logs are not read
	// for a producer of the application that holds nothing open there.
	ReadOnly map[string]bool
	// Absent are topics of the application that the cluster did not name: they do not exist, or the
	// broker that was asked has not heard of them. They are not looked at, see Complete.
	Absent []string
	// Wanted are the transactions of which Find looks for evidence; nil is all that may hang.
	Wanted func(producerID int64, epoch int16) bool
	// Patience bounds each of the questions of Look; 0 leaves that to the context.
	Patience time.Duration
	// Before are the coordinators' answers from before the ids were initialised, by transactional
	// id; nil if they were not asked.
	Before map[string]broker.Transaction
	// Databases returns the tasks whose databases have applied the round of a transaction, and
	// those that wrote it and show that it was not committed (see Evidence). Nil knows none.
	Databases func(producerID int64, epoch int16) (applied, notApplied []string)
}

// Complete returns an error that names the topics that are not looked at because the cluster did
// not name them.
func (s Search) Complete() error {
	if len(s.Absent) == 0 {
		return nil
	}
	return fmt.Errorf("not in the cluster's answer: %s", strings.Join(s.Absent, ", "))
}

// Finding is a transaction that partitions hold open. Evidence and Decision are empty while it is
// ongoing.
type Finding struct {
	Transaction
	Evidence Evidence
	Decision Decision
}

// Partitions names the partitions that hold the transaction open.
func (f Finding) Partitions() []string {
	var out []string
	for _, open := range f.Open {
		out = append(out, fmt.Sprintf("%s[%d]", open.Topic, open.Partition))
	}
	return out
}

// Look returns the transactions that the partitions hold open, sorted by producer id and epoch,
// without evidence of how they ended but Search.Before. The error joins what was not answered. The
// transactions of partitions that have answered are returned with it; it may not be Known whether
// they hang.
func Look(ctx context.Context, c *broker.Cluster, s Search) ([]Finding, error) {
	step := func(ask func(context.Context) error) error {
		if s.Patience > 0 {
			within, cancel := context.WithTimeout(ctx, s.Patience)
			defer cancel()
			return ask(within)
		}
		return ask(ctx)
	}
	var first, again []broker.OpenTransaction
	unanswered := step(func(ctx context.Context) (err error) {
		first, err = c.OpenTransactions(ctx, s.Partitions)
		return err
	})
	if len(first) == 0 {
		return nil, unanswered
	}
	producers := map[int64]bool{}
	held := map[string][]int32{}
	for _, t := range first {
		producers[t.ProducerID] = true
		if !slices.Contains(held[t.Topic], t.Partition) {
			held[t.Topic] = append(held[t.Topic], t.Partition)
		}
	}
	var known names
	namedErr := step(func(ctx context.Context) (err error) {
		known, err = s.names(ctx, c, slices.Sorted(maps.Keys(producers)))
		return err
	})
	againErr := step(func(ctx context.Context) (err error) {
		again, err = c.OpenTransactions(ctx, held)
		return err
	})
	return s.group(first, again, known), errors.Join(unanswered, namedErr, againErr)
}

// names are what coordinators say of producer ids, and those of which it is certain that no
// transactional id has them.
type names struct {
	named map[int64]broker.Named
	gone  map[int64]bool
}

// names asks the coordinators for producer ids. With an error it returns what it knows.
//
// A coordinator that is away is missing in a list of transactions without an error. So an id that
// is not listed is gone only if there were coordinators for all transactional ids, or if the
// coordinator of the id that it had before says so. And only the application's own can be said to
// be gone: others may have a transactional id that this process may not describe.
func (s Search) names(ctx context.Context, c *broker.Cluster, producerIDs []int64) (names, error) {
	all, ledErr := c.CoordinatorsLed(ctx)
	named, err := c.NamedProducers(ctx, producerIDs...)
	out := names{named, map[int64]bool{}}
	if out.named == nil {
		out.named = map[int64]broker.Named{}
	}
	all = all && ledErr == nil && err == nil
	had := map[string]int64{}
	for _, producerID := range producerIDs {
		if _, known := out.named[producerID]; known {
			continue
		}
		out.gone[producerID] = all
		for id, before := range s.Before {
			if before.ProducerID == producerID {
				had[id] = producerID
			}
		}
	}
	if len(had) == 0 {
		return out, err
	}
	now, nowErr := c.Transactions(ctx, slices.Sorted(maps.Keys(had))...)
	for id, producerID := range had {
		tx, there := now[id]
		if there && tx.ProducerID == producerID {
			out.named[producerID] = broker.Named{TransactionalID: id, Transaction: tx}
		}
		out.gone[producerID] = nowErr == nil && (!there || tx.ProducerID != producerID)
	}
	return out, errors.Join(err, nowErr)
}

// Find is Look with evidence and decisions. Logs are read only if a transaction that is wanted may
// hang, from a while before its records on. Topics that may not be read are named in the error, and
// the findings of the others are returned with it; after any other error there are none.
func Find(ctx context.Context, c *broker.Cluster, s Search) ([]Finding, error) {
	findings, unasked := Look(ctx, c, s)
	if unasked != nil && !OnlyDenied(unasked) {
		return nil, unasked
	}
	var hanging []*Finding
	for i := range findings {
		if f := findings[i]; !f.Ongoing() && (s.Wanted == nil || s.Wanted(f.ProducerID, f.Epoch)) {
			hanging = append(hanging, &findings[i])
		}
	}
	if len(hanging) > 0 {
		if err := s.collect(ctx, c, hanging); err != nil {
			return nil, err
		}
	}
	return findings, unasked
}

// OnlyDenied reports whether every part of an error is a missing permission: topics that may not be
// read.
func OnlyDenied(err error) bool { return only(err, denied) }

// OnlyAbsent is OnlyDenied, and true too if the cluster does not know topics: they were deleted, or
// a broker has not heard of them.
func OnlyAbsent(err error) bool {
	return only(err, func(e error) bool { return denied(e) || broker.NotYetKnown(e) })
}

func denied(err error) bool {
	_, is := errors.AsType[*broker.PermissionError](err)
	return is
}

func only(err error, is func(error) bool) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !only(e, is) })
	}
	return is(err)
}

// DeniedTopics returns the topics that may not be read, by the parts of an error.
func DeniedTopics(err error) (topics []string) {
	switch e := err.(type) { //nolint:errorlint // each part is looked at
	case *broker.PermissionError:
		for _, p := range e.Missing {
			if p.Resource == broker.TopicResource {
				topics = append(topics, p.Name)
			}
		}
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			topics = append(topics, DeniedTopics(part)...)
		}
	case interface{ Unwrap() error }:
		return DeniedTopics(e.Unwrap())
	}
	return topics
}

// group makes transactions of what both looks have seen open.
func (s Search) group(first, again []broker.OpenTransaction, names names) []Finding {
	type key struct {
		producerID int64
		epoch      int16
	}
	found := map[key]*Finding{}
	for _, open := range first {
		if !slices.ContainsFunc(again, open.Same) {
			continue // it has ended, or another one has begun
		}
		k := key{open.ProducerID, open.Epoch}
		f := found[k]
		if f == nil {
			f = &Finding{Transaction: Transaction{ProducerID: open.ProducerID, Epoch: open.Epoch}}
			if n, known := names.named[open.ProducerID]; known {
				f.Named = &n
				f.Own = strings.HasPrefix(n.TransactionalID, broker.TransactionalPrefix(s.Application))
			}
			for _, before := range s.Before {
				if before.ProducerID == open.ProducerID {
					f.Evidence.Before, f.Own = &before, true
				}
			}
			found[k] = f
		}
		f.Own = f.Own || s.Internal[open.Topic]
		f.Open = append(f.Open, open)
	}
	var out []Finding
	for _, f := range found {
		f.Gone = f.Named == nil && f.Own && names.gone[f.ProducerID]
		slices.SortStableFunc(f.Open, func(a, b broker.OpenTransaction) int { return stage(a) - stage(b) })
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Finding) int {
		if a.ProducerID != b.ProducerID {
			if a.ProducerID < b.ProducerID {
				return -1
			}
			return 1
		}
		return int(a.Epoch) - int(b.Epoch)
	})
	return out
}

// in reports whether a partition of the topic holds it open.
func (f *Finding) in(topic string) bool {
	return slices.ContainsFunc(f.Open, func(open broker.OpenTransaction) bool { return open.Topic == topic })
}

// stage orders a repair: committed offsets are the last.
func stage(t broker.OpenTransaction) int {
	if t.Topic == broker.OffsetsTopic {
		return 1
	}
	return 0
}

// slack is how long before the begin of a hanging transaction, as far as that is known, its markers
// and the records in front of them are looked for. It is the longest transaction that brokers allow
// by default.
const slack = 15 * time.Minute

// markersKept is how long a marker is surely in the log of a compacted topic: half of the default
// of delete.retention.ms.
const markersKept = 12 * time.Hour

// begin returns when the first of the transactions may have begun. The timestamps of records are
// those of events where the topic has no log append time, and may be ahead of the clock by
// anything. Coordinators tell the time of their own clock.
func begin(hanging []*Finding) time.Time {
	at := time.Now()
	earlier := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	for _, f := range hanging {
		for _, open := range f.Open {
			earlier(open.LastRecord)
		}
		said := []*broker.Transaction{f.Evidence.Before}
		if f.Named != nil {
			said = append(said, &f.Named.Transaction)
		}
		for _, tx := range said {
			if tx != nil && tx.ProducerID == f.ProducerID && !tx.Started.IsZero() {
				earlier(tx.Started)
			}
		}
	}
	return at
}

// lacking notes in which logs a marker of a transaction can be gone, if its coordinator knew it as
// ongoing: that no marker is found is evidence then. A partition that holds the transaction open
// has none.
func (s Search) lacking(ctx context.Context, c *broker.Cluster, logs map[string]map[int32]bool, hanging []*Finding) error {
	topics := slices.Sorted(maps.Keys(logs))
	var first map[string]map[int32]int64 // the first offset that is left
	for _, f := range hanging {
		if !ongoingBefore(f.Transaction, f.Evidence) {
			continue
		}
		if len(s.Partitions[broker.OffsetsTopic]) == 0 {
			f.Evidence.Lacking = append(f.Evidence.Lacking, "the partition of the committed offsets is not known")
		}
		started := f.Evidence.Before.Started
		if time.Since(started) > markersKept {
			f.Evidence.Lacking = append(f.Evidence.Lacking, fmt.Sprintf("it began at %s, and brokers may have deleted its markers", started.UTC().Format(time.RFC3339)))
			continue
		}
		var err error
		if first == nil {
			if first, err = c.OffsetsAt(ctx, time.UnixMilli(0), topics...); err != nil {
				return err
			}
		}
		starts, err := c.OffsetsAt(ctx, started.Add(-slack), topics...)
		if err != nil {
			return err
		}
		for _, topic := range topics {
			for _, p := range slices.Sorted(maps.Keys(logs[topic])) {
				left, known := first[topic][p]
				start, listed := starts[topic][p]
				switch {
				case slices.ContainsFunc(f.Open, func(open broker.OpenTransaction) bool { return open.Topic == topic && open.Partition == p }):
				case !known || !listed:
					f.Evidence.Lacking = append(f.Evidence.Lacking, fmt.Sprintf("%s[%d] has not said where its log begins", topic, p))
				case left > 0 && start <= left: // no older record is left, so a marker behind one can be gone too
					f.Evidence.Lacking = append(f.Evidence.Lacking,
						fmt.Sprintf("the log of %s[%d] begins at offset %d, with no record from before the transaction", topic, p, left))
				}
			}
		}
	}
	return nil
}

// collect reads the logs for what tells how the transactions ended, and decides.
func (s Search) collect(ctx context.Context, c *broker.Cluster, hanging []*Finding) error {
	logs := map[string]map[int32]bool{}
	for _, from := range []map[string][]int32{s.Partitions, s.Logs} {
		for topic, partitions := range from {
			for _, p := range partitions {
				if logs[topic] == nil {
					logs[topic] = map[int32]bool{}
				}
				logs[topic][p] = true
			}
		}
	}
	for topic := range s.ReadOnly {
		if !slices.ContainsFunc(hanging, func(f *Finding) bool { return !f.Own || f.in(topic) }) {
			delete(logs, topic)
		}
	}
	wanted := map[int64]bool{}
	for _, f := range hanging {
		wanted[f.ProducerID] = true
	}
	topics := slices.Sorted(maps.Keys(logs))
	starts, err := c.OffsetsAt(ctx, begin(hanging).Add(-slack), topics...)
	if err != nil {
		return err
	}
	if err := s.lacking(ctx, c, logs, hanging); err != nil {
		return err
	}
	for _, topic := range topics {
		for _, p := range slices.Sorted(maps.Keys(logs[topic])) {
			from := starts[topic][p] // the start of the log where it is not known
			for _, f := range hanging {
				for _, open := range f.Open {
					if open.Topic == topic && open.Partition == p {
						from = min(from, open.FirstOffset)
					}
				}
			}
			if err := read(ctx, c, topic, p, from, wanted, hanging); err != nil {
				if !OnlyDenied(err) {
					return err
				}
				for _, f := range hanging {
					f.Evidence.Unread = append(f.Evidence.Unread, err.Error())
				}
			}
		}
	}
	downgraded := c.RequireTransactionVersion2(ctx) != nil // also if no broker answers
	for _, f := range hanging {
		f.Evidence.Downgraded = downgraded
		f.Evidence.PerTransaction = f.Evidence.changed && !f.Evidence.kept
		if slices.ContainsFunc(f.Evidence.Markers, func(m Marker) bool { return m.Epoch == f.Epoch }) {
			if f.Evidence.Resent, err = c.TakesResentMarkers(ctx); err != nil {
				return err
			}
		}
		if s.Databases != nil {
			f.Evidence.Applied, f.Evidence.NotApplied = s.Databases(f.ProducerID, f.Epoch)
		}
		f.Decision = Decide(f.Transaction, f.Evidence)
	}
	return nil
}

// read adds to the evidence what one partition says.
func read(
	ctx context.Context, c *broker.Cluster, topic string, partition int32, from int64, wanted map[int64]bool, hanging []*Finding,
) error {
	last := map[int64]int16{} // the epoch of the records that a marker would end, by producer
	markers := map[int64][]Marker{}
	emptied := map[int64][]Marker{}
	began := map[int64]map[int64]int16{} // the epochs of records by producer and offset of the batch, of those at which a transaction begins
	for _, f := range hanging {
		for _, open := range f.Open {
			if open.Topic == topic && open.Partition == partition {
				began[f.ProducerID] = map[int64]int16{open.FirstOffset: f.Epoch}
			}
		}
	}
	err := c.Traces(ctx, topic, partition, from, func(t broker.Trace) {
		if !wanted[t.ProducerID] {
			return
		}
		if t.Ending == batch.None {
			last[t.ProducerID] = t.Epoch
			for first := range began[t.ProducerID] {
				if t.First <= first && first <= t.Last {
					began[t.ProducerID][first] = t.Epoch
				}
			}
			return
		}
		m := Marker{Topic: topic, Partition: partition, Offset: t.First, Epoch: t.Epoch, Commit: t.Ending == batch.Committed, Of: -1}
		if epoch, seen := last[t.ProducerID]; seen {
			m.Of = epoch
			delete(last, t.ProducerID)
		}
		to := markers
		if t.Ending == batch.Compacted {
			to = emptied
		}
		to[t.ProducerID] = append(to[t.ProducerID], m)
	})
	if err != nil {
		return fmt.Errorf("looking for markers: %w", err)
	}
	for _, f := range hanging {
		f.Evidence.Searched++
		for _, m := range markers[f.ProducerID] {
			f.Evidence.changed = f.Evidence.changed || m.Commit && m.Of >= 0 && m.Of <= f.Epoch && int32(m.Epoch) == int32(m.Of)+1
			f.Evidence.kept = f.Evidence.kept || m.Of >= 0 && m.Epoch == m.Of
			if m.ends(f.Epoch) {
				f.Evidence.Markers = append(f.Evidence.Markers, m)
			}
		}
		for _, m := range emptied[f.ProducerID] {
			if m.ends(f.Epoch) {
				f.Evidence.Lacking = append(f.Evidence.Lacking,
					fmt.Sprintf("compaction has taken what a marker in %s[%d] at offset %d said", topic, partition, m.Offset))
			}
		}
		for _, open := range f.Open {
			if open.Topic == topic && open.Partition == partition && began[f.ProducerID][open.FirstOffset] != f.Epoch {
				f.Evidence.Mixed = append(f.Evidence.Mixed, open)
			}
		}
	}
	return nil
}
