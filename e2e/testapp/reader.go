package testapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/check"
)

// Kind says how the records of a topic are read.
type Kind uint8

// The kinds.
const (
	Inputs    Kind = iota // values are Input, also those of dead letters
	Totals                // values are Total
	Changelog             // bytes
	Positions             // __consumer_offsets
)

// Reader follows topics from their start and records what it gets. Run is called once; the other
// methods may be called from any goroutine.
type Reader struct {
	name    string
	client  *kgo.Client
	history *Recorder
	topics  map[string]Kind
	group   string // whose positions count

	mu   sync.Mutex
	next map[string]map[int32]int64 // the offset after the last one that was recorded
	// records counts by topic; generation is the group's highest one.
	records    map[string]int64
	generation int32
	// ends are the transactions that have ended, and how.
	ends map[check.Txn]bool
}

// NewReader returns a reader of the topics from offset 0, which have to be there; it joins no
// group. The one that is called [check.LogReader] also gets what is not committed, and records
// markers. The positions that it records are those of the group. The options say where the brokers
// are.
//
// Every reader makes the client keep markers. Without them the client knows only the leader epoch
// of the last record. If a marker is the first entry of an epoch, the client takes the next change
// of leaders for a loss of that marker.
func NewReader(name string, history *Recorder, topics map[string]Kind, group string, opts ...kgo.Opt) (*Reader, error) {
	opts = append([]kgo.Opt{kgo.ClientID(name)}, opts...)
	opts = append(opts,
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxBytes(16<<20), kgo.KeepControlRecords(),
	)
	if name == check.LogReader {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadUncommitted()))
	} else {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	names := make([]string, 0, len(topics))
	for topic := range topics {
		names = append(names, topic)
	}
	opts = append(opts, kgo.ConsumeTopics(names...), kgo.ConsumeStartOffset(kgo.NewOffset().At(0)))
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("reader %s: %w", name, err)
	}
	return &Reader{
		name: name, client: client, history: history, topics: topics, group: group, next: map[string]map[int32]int64{},
		records: map[string]int64{}, ends: map[check.Txn]bool{},
	}, nil
}

// Run follows until ctx ends. Errors of fetching that the client goes on from, such as a broker
// that is away, are not the reader's business; one that ends a partition is.
func (r *Reader) Run(ctx context.Context) error {
	defer r.client.Close()
	for {
		fetches := r.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return r.history.err()
		}
		var failed error
		fetches.EachError(func(topic string, partition int32, err error) {
			if topic != "" && !errors.Is(err, context.Canceled) {
				failed = fmt.Errorf("reader %s: %s[%d]: %w", r.name, topic, partition, err)
			}
		})
		if failed != nil {
			return failed
		}
		var bad error
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if err := r.take(p); err != nil && bad == nil {
				bad = err
			}
		})
		if bad != nil {
			return bad
		}
	}
}

// take records one partition's part of a poll: runs of records of one transaction, and markers.
func (r *Reader) take(p kgo.FetchTopicPartition) error {
	if len(p.Records) == 0 {
		return nil
	}
	var run *check.Records
	flush := func() {
		if run != nil {
			r.history.Write(check.Event{Read: run})
			run = nil
		}
	}
	data := int64(0)
	for _, rec := range p.Records {
		txn := check.NoTxn
		if rec.Attrs.IsTransactional() {
			txn = check.Txn{Producer: rec.ProducerID, Epoch: rec.ProducerEpoch}
		}
		switch {
		case rec.Attrs.IsControl() && r.name != check.LogReader:
			continue
		case rec.Attrs.IsControl():
			flush()
			if err := r.takeMarker(rec); err != nil {
				return err
			}
			continue
		case r.topics[rec.Topic] == Positions:
			if err := r.takePosition(rec, txn); err != nil {
				return err
			}
			continue
		}
		data++
		if run == nil || run.Txn != txn {
			flush()
			run = &check.Records{Reader: r.name, Topic: rec.Topic, Partition: rec.Partition, Txn: txn}
		}
		if err := r.takeRecord(run, rec); err != nil {
			return err
		}
	}
	flush()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next[p.Topic] == nil {
		r.next[p.Topic] = map[int32]int64{}
	}
	r.next[p.Topic][p.Partition] = p.Records[len(p.Records)-1].Offset + 1
	r.records[p.Topic] += data
	return nil
}

func (r *Reader) takeRecord(run *check.Records, rec *kgo.Record) error {
	run.Offsets = append(run.Offsets, rec.Offset)
	switch r.topics[rec.Topic] {
	case Changelog:
		run.Keys = append(run.Keys, check.Hash(rec.Key))
		value := uint64(0)
		if rec.Value != nil {
			value = check.Hash(rec.Value)
		}
		run.Values = append(run.Values, value)
		return nil
	case Totals:
		var t Total
		if err := json.Unmarshal(rec.Value, &t); err != nil {
			return fmt.Errorf("%s[%d] offset %d is no total: %w", rec.Topic, rec.Partition, rec.Offset, err)
		}
		run.IDs, run.Counts, run.Sums = append(run.IDs, t.ID), append(run.Counts, t.Count), append(run.Sums, t.Sum)
		return nil
	default:
		var in Input
		if err := json.Unmarshal(rec.Value, &in); err != nil {
			return fmt.Errorf("%s[%d] offset %d is no input: %w", rec.Topic, rec.Partition, rec.Offset, err)
		}
		run.IDs = append(run.IDs, in.ID)
		return nil
	}
}

func (r *Reader) takeMarker(rec *kgo.Record) error {
	var key kmsg.ControlRecordKey
	if err := key.ReadFrom(rec.Key); err != nil {
		return fmt.Errorf("%s[%d] offset %d: control record: %w", rec.Topic, rec.Partition, rec.Offset, err)
	}
	commit := key.Type == kmsg.ControlRecordKeyTypeCommit
	if !commit && key.Type != kmsg.ControlRecordKeyTypeAbort {
		return nil // not of a transaction
	}
	r.mu.Lock()
	r.ends[check.Txn{Producer: rec.ProducerID, Epoch: rec.ProducerEpoch}] = commit
	r.mu.Unlock()
	r.history.Write(check.Event{Marker: &check.Marker{
		Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Producer: rec.ProducerID, Commit: commit,
	}})
	return nil
}

// takePosition reads a record of __consumer_offsets: a position (key versions 0 and 1), or a
// group's generation (2).
func (r *Reader) takePosition(rec *kgo.Record, txn check.Txn) error {
	if len(rec.Key) < 2 || rec.Value == nil {
		return nil // a tombstone: the group or a position of it is gone
	}
	switch version := int16(rec.Key[0])<<8 | int16(rec.Key[1]); version {
	case 0, 1:
		var key kmsg.OffsetCommitKey
		var value kmsg.OffsetCommitValue
		if err := errors.Join(key.ReadFrom(rec.Key), value.ReadFrom(rec.Value)); err != nil {
			return fmt.Errorf("%s[%d] offset %d: %w", rec.Topic, rec.Partition, rec.Offset, err)
		}
		if key.Group == r.group {
			r.history.Write(check.Event{Position: &check.Position{
				Log: rec.Partition, Offset: rec.Offset, Topic: key.Topic, Partition: key.Partition, Next: value.Offset, Txn: txn,
			}})
		}
	case 2:
		var value kmsg.GroupMetadataValue
		if err := value.ReadFrom(rec.Value); err != nil {
			return fmt.Errorf("%s[%d] offset %d: %w", rec.Topic, rec.Partition, rec.Offset, err)
		}
		r.mu.Lock()
		r.generation = max(r.generation, value.Generation)
		r.mu.Unlock()
	}
	return nil
}

// Count returns how many records of a topic were recorded.
func (r *Reader) Count(topic string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records[topic]
}

// Committed says whether a marker was read that commits the transaction.
func (r *Reader) Committed(t check.Txn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends[t]
}

// Generation returns the generation that the group has reached.
func (r *Reader) Generation() int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.generation
}

// Next returns the offset behind the last record of a partition that was recorded.
func (r *Reader) Next(topic string, partition int32) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next[topic][partition]
}

// Reached reports whether the reader has got everything below the ends of a topic.
func (r *Reader) Reached(topic string, ends []int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, end := range ends {
		if r.next[topic][int32(p)] < end {
			return false
		}
	}
	return true
}
