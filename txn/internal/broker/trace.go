package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/txn/internal/broker/batch"
)

// Trace is a batch of a transaction in a partition: records, or the marker that ends it there.
type Trace struct {
	Topic     string
	Partition int32
	batch.Head
}

// traceBytes bounds one answer. Only heads are kept of it.
const traceBytes = 8 << 20

// Traces calls each for the batches of transactions that a partition holds from an offset on,
// committed or not, in their order, up to its high watermark at the call. An offset that is out of
// range is the start of the log. All of the log from there on is transferred.
func (c *Cluster) Traces(ctx context.Context, topic string, partition int32, from int64, each func(Trace)) error {
	found, err := c.adm.Metadata(ctx, topic)
	if err == nil {
		err = c.cfg.denied(found.Topics[topic].Err, attempt{operation: Read, topic: topic})
	}
	if err != nil {
		return fmt.Errorf("asking for topic %s: %w", topic, err)
	}
	start, end, err := c.LogBounds(ctx, topic, partition)
	if err != nil {
		return err
	}
	from = max(from, start)
	r := c.NewReader(topic, found.Topics[topic].ID, partition, false, traceBytes)
	for from < end {
		p, err := r.fetchPartition(ctx, from, time.Second)
		if err != nil {
			return err
		}
		next, err := batch.Heads(p, from, func(h batch.Head) { each(Trace{topic, partition, h}) })
		if err != nil {
			return fmt.Errorf("reading %s[%d]: %w", topic, partition, err)
		}
		if next == from && batch.HasOldFormat(p) {
			return fmt.Errorf("reading %s[%d] from offset %d: %w", topic, partition, from, kerr.UnsupportedForMessageFormat)
		}
		from = next
	}
	return nil
}

// OffsetsAt returns, for each partition of the topics, the first offset whose record is not older
// than a time, or the end of the partition. Partitions that do not answer are missing.
func (c *Cluster) OffsetsAt(ctx context.Context, at time.Time, topics ...string) (map[string]map[int32]int64, error) {
	listed, err := c.adm.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topics...)
	if err != nil {
		return nil, fmt.Errorf("listing offsets by time: %w", err)
	}
	out := map[string]map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			return
		}
		if out[o.Topic] == nil {
			out[o.Topic] = map[int32]int64{}
		}
		out[o.Topic][o.Partition] = o.Offset
	})
	return out, nil
}
