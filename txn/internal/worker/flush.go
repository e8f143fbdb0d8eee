package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// flush sends what is left, the changelog records, and if there was nothing at all one filler; then
// it waits for all of them.
func (t *committer) flush(ctx context.Context, c command) (protocol.EventKind, error) {
	ctx, cancel := context.WithDeadline(ctx, c.round.sealed.Add(t.w.cfg.Deadlines.Flush))
	defer cancel()
	r := c.round
	t.send(ctx, r, c.batches, t.producer.Hold)
	s := &r.committerState
	switch {
	case s.unusable:
		return protocol.ProducerLost, s.err
	case s.err != nil:
		return protocol.FlushFailed, s.err
	case r.outputs.unfit != nil:
		return protocol.FlushFailed, r.outputs.unfit
	}
	logged, err := t.sendChangelogs(r)
	if err != nil {
		return protocol.FlushFailed, err
	}
	if s.records == 0 {
		t.note(fillerKey(r), []byte{})
		s.records++
	}
	for _, contribution := range r.contributions {
		if contribution.First() {
			// In the transaction itself: what the last clean stop has kept is the last word exactly
			// until this commit.
			t.note(task.PositionsKey(contribution.Task.ID.String()), nil)
		}
	}
	if kind, err := t.waitAcknowledged(ctx, s.identity); err != nil {
		return kind, err
	}
	applied, err := t.applied(r, logged)
	if err != nil {
		return protocol.ProducerLost, err
	}
	large := map[*task.Contribution]batch.Place{}
	for i, contribution := range r.contributions {
		wroteState := contribution.WroteState() || brokenState(t.w.cfg.Failpoints, contribution)
		contribution.Flushed(s.id, wroteState, t.w.cfg.Fingerprint, applied[i])
		if len(contribution.Metadata()) > t.w.cfg.MetadataMax {
			large[contribution] = t.note(task.RecordKey(contribution.Task.ID.String()), []byte(contribution.Metadata()))
		}
	}
	if len(large) == 0 {
		return protocol.Flushed, nil
	}
	kind, err := t.waitAcknowledged(ctx, s.identity)
	if err != nil {
		return kind, err
	}
	for contribution, place := range large {
		at, known := place.Offset()
		if !known {
			return protocol.ProducerLost, fmt.Errorf("the offset of the metadata of task %s: %w", contribution.Task.ID, errNoOffset)
		}
		contribution.Refer(roundsPartition, at)
	}
	return kind, nil
}

// roundsPartition is the partition of the rounds topic that is written.
const roundsPartition = 0

// errNoOffset says that a record is written and that the broker has not said where.
var errNoOffset = errors.New("the broker has not named it")

// note adds a record to the rounds topic.
func (t *committer) note(key, value []byte) batch.Place {
	return t.producer.Add(t.w.cfg.RoundsTopic, roundsPartition, time.Now().UnixMilli(), key, value, nil)
}

// waitAcknowledged flushes the producer.
func (t *committer) waitAcknowledged(ctx context.Context, began broker.Identity) (protocol.EventKind, error) {
	switch outcome, err := t.producer.Flush(ctx, began); outcome {
	case broker.Accepted:
		return protocol.Flushed, nil
	case broker.Refused:
		return protocol.FlushFailed, err
	default:
		return protocol.ProducerLost, err
	}
}

// changelog is that of a store of a contribution.
type changelog struct {
	contribution int
	store, topic string
	layout       state.Layout
	written      bool
}

// sendChangelogs produces the layers' writes, one record per key, and returns the changelogs of the
// round.
func (t *committer) sendChangelogs(r *round) (logged []*changelog, err error) {
	for i, contribution := range r.contributions {
		if contribution.Layer == nil {
			continue
		}
		logs := map[state.StoreID]*changelog{}
		for _, cl := range contribution.Task.Changelogs {
			l := &changelog{contribution: i, store: cl.Store, topic: cl.Topic, layout: cl.Layout}
			logs[state.IDOf(cl.Store)] = l
			logged = append(logged, l)
		}
		at := contribution.StreamTime()
		if at == state.NoTime {
			at = time.Now().UnixMilli()
		}
		for w := range contribution.Layer.Logged() {
			l := logs[w.Store]
			if l == nil && (contribution.Task.HasTable(w.Store) || !contribution.Task.Lasts(w.Store)) {
				continue // its topic has the record already, or nothing restores it
			}
			entry, err := l.layout.Record(w)
			if err != nil {
				return nil, fmt.Errorf("changelog record of store %08x: %w", uint32(w.Store), err)
			}
			timestamp := at
			if entry.Timestamp != state.NoTime {
				timestamp = entry.Timestamp
			}
			t.producer.Add(l.topic, contribution.Task.ID.Partition, timestamp, entry.Key, entry.Value, nil)
			l.written = true
			r.committerState.records++
		}
	}
	return logged, nil
}

// applied returns per contribution and store the offset behind the last changelog record, once all
// are acknowledged.
func (t *committer) applied(r *round, logged []*changelog) ([]map[string]int64, error) {
	applied := make([]map[string]int64, len(r.contributions))
	for _, l := range logged {
		c := r.contributions[l.contribution]
		if applied[l.contribution] == nil {
			applied[l.contribution] = map[string]int64{}
		}
		if !l.written {
			continue
		}
		end, known := t.producer.End(l.topic, c.Task.ID.Partition)
		if !known {
			return nil, fmt.Errorf("the offset of the changelog records of store %s of task %s: %w", l.store, c.Task.ID, errNoOffset)
		}
		applied[l.contribution][l.store] = end
	}
	return applied, nil
}
