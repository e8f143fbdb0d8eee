package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/waits"
)

const (
	fetchBytes = 4 << 20
	fetchWait  = 250 * time.Millisecond
	// heldMax is how long an open transaction may hold a reading up: longer than the coordinator
	// lets one live by default.
	heldMax = 30 * time.Second
)

// reading reads the committed records of one partition of a topic, by raw fetches. It belongs to
// one goroutine.
type reading struct {
	cluster   *broker.Cluster
	reader    *broker.Reader
	topic     string
	partition int32
}

func newReading(c *broker.Cluster, topic string, id [16]byte, partition int32) *reading {
	return &reading{
		cluster: c, reader: c.NewReader(topic, id, partition, true, fetchBytes), topic: topic, partition: partition,
	}
}

// each hands the records from from on and below to to take, and says after each answer to step
// where it is; step may be nil. A transaction that is open below to is waited for, for heldMax.
func (r *reading) each(ctx context.Context, from, to int64, take func(*broker.Record) error, step func(at int64) error) error {
	moved := time.Now()
	for at := from; at < to; {
		f, err := r.reader.Fetch(ctx, at, fetchWait)
		if err != nil {
			return err
		}
		for _, rec := range f.Records {
			if rec.Offset >= to {
				continue
			}
			if err := take(rec); err != nil {
				return err
			}
		}
		if f.Next > at {
			moved = time.Now()
		} else if time.Since(moved) > heldMax {
			return fmt.Errorf("an open transaction holds %s[%d] at %d: %s; try again when it has ended", r.topic, r.partition, at,
				waits.Look(ctx, r.cluster, r.topic, r.partition).HeldBy())
		}
		at = min(f.Next, to)
		if step == nil {
			continue
		}
		if err := step(at); err != nil {
			return err
		}
	}
	return nil
}

// row translates a record of a changelog into the write of a row.
func (r *reading) row(l state.Layout, rec *broker.Record) (state.Write, error) {
	w, err := l.Row(state.ChangelogRecord{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp.UnixMilli()})
	if err != nil {
		return w, fmt.Errorf("%s[%d] at offset %d: %w", r.topic, r.partition, rec.Offset, err)
	}
	return w, nil
}
