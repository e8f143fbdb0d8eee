package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Write writes one record to a partition of a topic, such as the resolution of an effect, and
// returns its offset. It is a plain record, outside of any transaction: after an error it may have
// been written or not. The result of the task that reads it is in its state: see [State.GetBehind].
func (c *Client) Write(ctx context.Context, topic string, partition int32, key, value []byte) (offset int64, err error) {
	if err := c.CheckPartition(ctx, topic, partition); err != nil {
		return 0, err
	}
	cl, err := kgo.NewClient(append(c.cfg.Options(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return 0, fmt.Errorf("writing to %s[%d]: %w", topic, partition, err)
	}
	defer cl.Close()
	r, err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: partition, Key: key, Value: value}).First()
	if err != nil {
		return 0, fmt.Errorf("writing to %s[%d], which may have been done or not: %w", topic, partition, err)
	}
	return r.Offset, nil
}

// CheckPartition fails unless a topic has a partition.
func (c *Client) CheckPartition(ctx context.Context, topic string, partition int32) error {
	count, err := c.PartitionCount(ctx, topic)
	if err == nil && (partition < 0 || partition >= count) {
		err = fmt.Errorf("topic %s has no partition %d; it has %d of them", topic, partition, count)
	}
	return err
}
