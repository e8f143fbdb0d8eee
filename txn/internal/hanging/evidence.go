package hanging

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
)

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
		said := slices.Clone(f.Evidence.Before)
		if f.Named != nil {
			said = append(said, f.Named.Transaction)
		}
		for _, tx := range said { // a transaction of an older epoch has begun earlier, and tells nothing
			if tx.ProducerID == f.ProducerID && tx.Epoch >= f.Epoch && !tx.Started.IsZero() {
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
		before, ongoing := ongoingBefore(f.Transaction, f.Evidence)
		if !ongoing {
			continue
		}
		if len(s.Partitions[broker.OffsetsTopic]) == 0 {
			f.Evidence.Lacking = append(f.Evidence.Lacking, "the partition of the committed offsets is not known")
		}
		started := before.Started
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
