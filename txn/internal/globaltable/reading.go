package globaltable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/topics"
)

// reading reads the partitions of a topic into a database.
type reading struct {
	*table
	topic topics.Topic
	db    state.Database
	// follows says that the database was at the ends, so that all that is read now is new.
	follows bool
	// writing orders the steps of the positions.
	writing sync.Mutex
	// taken is how many records were read.
	taken atomic.Int64
}

// The bounds of an answer: of a partition with more to read, which needs a seat, and of one that
// waits for records.
const (
	fetchBytes = 1 << 20
	probeBytes = 64 << 10
)

// run reads every partition up to the given offsets, or without them until something ends it.
func (r *reading) run(ctx context.Context, until map[int32]int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched, endWatch := context.WithCancel(ctx)
	var partitions, watch sync.WaitGroup
	watch.Go(func() {
		if err := r.watch(watched); err != nil {
			cancel(err)
		}
	})
	for p := range r.topic.Partitions {
		target := int64(-1)
		if until != nil {
			target = until[p]
		}
		partitions.Go(func() {
			if err := r.partition(ctx, p, target); err != nil {
				cancel(err)
			}
		})
	}
	partitions.Wait()
	endWatch()
	watch.Wait()
	return context.Cause(ctx)
}

// partition reads one partition up to an offset, which is negative for no end.
func (r *reading) partition(ctx context.Context, p int32, target int64) error {
	in, known := r.db.Positions().Input(r.topic.Name, p)
	at := in.Offset
	stream := r.fetcher.Open(r.topic.Name, r.topic.ID, p)
	defer stream.Close()
	x := &partition{reading: r, number: p, decoder: batch.NewDecoder(), row: r.info.FromSource.Reader(), restoring: target >= 0}
	for more := target >= 0; target < 0 || at < target; {
		next, stable, err := x.fetch(ctx, stream, at, more)
		switch {
		case errors.Is(err, broker.ErrOffsetOutOfRange):
			if next, err = x.outOfRange(ctx, at, known); err != nil {
				return err
			}
			more = true
		case err != nil:
			return err
		default:
			more = next > at && next < stable
		}
		known = known || next > at
		at = next
	}
	return nil
}

// partition is what the goroutine of a partition works with.
type partition struct {
	*reading
	number    int32
	decoder   *batch.Decoder
	row       graph.RowReader
	restoring bool
}

// fetch asks for records from at on and takes them in. more says that there are some for sure.
func (x *partition) fetch(ctx context.Context, stream *broker.Stream, at int64, more bool) (next, stable int64, err error) {
	bytesMax := int32(probeBytes)
	if more {
		select {
		case x.seats <- struct{}{}:
			defer func() { <-x.seats }()
		case <-ctx.Done():
			return at, 0, ctx.Err()
		}
		bytesMax = fetchBytes
	}
	a, err := stream.Fetch(ctx, at, bytesMax)
	switch {
	case err != nil:
		return at, 0, err
	case a.HasOldFormat():
		return at, 0, fmt.Errorf("%s[%d] holds records in a format from before Kafka 0.11, which a global table does not read",
			x.topic.Name, x.number)
	case a.Next == at:
		return at, a.LastStableOffset, nil
	}
	next, err = x.take(ctx, at, &a)
	return next, a.LastStableOffset, err
}

// take makes rows of an answer, and writes them together with the position behind it.
func (x *partition) take(ctx context.Context, at int64, a *broker.Answer) (next int64, err error) {
	var writes []state.Write
	var records, skipped int64
	next, err = a.Decode(x.decoder, func(record batch.Record) error {
		w, ok, err := x.row(record.Key, record.Value, record.Timestamp)
		if err != nil { // its text may quote the record
			return fmt.Errorf("the record at offset %d cannot be read: an error of its codecs that is not about the record", record.Offset)
		}
		records++
		if !ok {
			skipped++
			return nil
		}
		w.Store, w.Key = x.id, slices.Clone(w.Key) // the reader uses the memory of the key again
		if w.Delete {
			w.Value = nil
		}
		writes = append(writes, w)
		return nil
	})
	if err != nil {
		return at, fmt.Errorf("reading %s[%d]: %w", x.topic.Name, x.number, err)
	}
	if err := x.brokenPosition(ctx, next); err != nil {
		return at, err
	}
	if err := x.write(next, writes, records > 0); err != nil {
		return at, err
	}
	x.taken.Add(records)
	x.told.read(records, skipped)
	x.cfg.Metrics.GlobalTable(x.info.Name, records, skipped)
	if skipped > 0 {
		x.log.Warn("records of a global table make no rows: they have no key, a negative timestamp, or cannot be decoded",
			"partition", x.number, "records", skipped, "from_offset", at, "to_offset", next)
	}
	if x.restoring {
		return next, x.cfg.Failpoints.Hit(ctx, failpoint.RestoreBatch)
	}
	return next, nil
}

// write applies rows with the position behind them.
func (x *partition) write(next int64, writes []state.Write, records bool) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	base := x.db.Positions()
	if records && x.follows && expired(base, x.topic, time.Now()) {
		return &lostError{TombstonesExpired, fmt.Sprintf("%s[%d] could not be read for longer than the topic keeps deletions",
			x.topic.Name, x.number)}
	}
	after := base.Clone()
	if after.WrittenAt == 0 {
		after.WrittenAt = time.Now().UnixMilli() // the age of what is here so far
	}
	after.SetInput(state.Input{Topic: x.topic.Name, Partition: x.number, Offset: next, StreamTime: state.NoTime})
	after.SetChangelog(state.Changelog{Store: x.info.Name, TopicID: x.topic.ID})
	if err := x.db.Apply(base, after, slices.Values(writes)); err != nil {
		return fmt.Errorf("writing global table %s: %w", x.info.Name, err)
	}
	return nil
}

// touch notes that nothing was missing at a time.
func (r *reading) touch(at time.Time) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	base := r.db.Positions()
	if at.UnixMilli() <= base.WrittenAt {
		return nil
	}
	after := base.Clone()
	after.WrittenAt = at.UnixMilli()
	after.SetChangelog(state.Changelog{Store: r.info.Name, TopicID: r.topic.ID})
	if err := r.db.Apply(base, after, slices.Values([]state.Write(nil))); err != nil {
		return fmt.Errorf("writing the position of global table %s: %w", r.info.Name, err)
	}
	return nil
}

// outOfRange says where to go on behind an offset that the log does not have.
func (x *partition) outOfRange(ctx context.Context, at int64, known bool) (next int64, err error) {
	start, end, err := x.cfg.Cluster.LogBounds(ctx, x.topic.Name, x.number)
	switch {
	case err != nil:
		return at, err
	case !known:
		return start, nil // nothing of the partition was read
	case at < start:
		return at, &lostError{Trimmed, fmt.Sprintf("%s[%d] begins at offset %d, and the table is at %d", x.topic.Name, x.number, start, at)}
	case at > end:
		return at, &lostError{Shortened, fmt.Sprintf("%s[%d] ends at offset %d, and the table is at %d", x.topic.Name, x.number, end, at)}
	}
	return at, fmt.Errorf("%s[%d] has offsets %d to %d, and does not answer for %d", x.topic.Name, x.number, start, end, at)
}
