package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/onceward/onceward/txn/internal/broker"
)

// EachOptions select records of a topic.
type EachOptions struct {
	// Partitions are those to read; nil is all.
	Partitions []int32
}

// Each hands the committed records that a topic holds as of the call to take, partition by
// partition, in order, without keeping them. It stops at the first error of take, and returns it. A
// topic that does not exist is an error.
func (c *Client) Each(ctx context.Context, topic string, o EachOptions, take func(Record) error) error {
	cluster, err := broker.Connect(ctx, c.cfg, c.cfg.ClientID)
	if err != nil {
		return fmt.Errorf("reading %s: %w", topic, err)
	}
	defer cluster.Close()
	details, err := c.adm.ListTopics(ctx, topic)
	if err != nil {
		return fmt.Errorf("reading %s: %w", topic, err)
	}
	detail := details[topic]
	if detail.Err != nil {
		return fmt.Errorf("reading %s: %w", topic, detail.Err)
	}
	partitions := o.Partitions
	if partitions == nil {
		partitions = slices.Sorted(maps.Keys(detail.Partitions))
	}
	ends, err := c.adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("listing the stable end of %s: %w", topic, err)
	}
	for _, p := range partitions {
		if err := eachOf(ctx, cluster, detail, p, ends, take); err != nil {
			return err
		}
	}
	return nil
}

func eachOf(
	ctx context.Context, cluster *broker.Cluster, topic kadm.TopicDetail, partition int32, ends kadm.ListedOffsets,
	take func(Record) error,
) error {
	end, ok := ends.Lookup(topic.Topic, partition)
	if !ok {
		return fmt.Errorf("topic %s has no partition %d", topic.Topic, partition)
	}
	start, _, err := cluster.LogBounds(ctx, topic.Topic, partition)
	if err = errors.Join(end.Err, err); err != nil {
		return fmt.Errorf("listing the bounds of %s[%d]: %w", topic.Topic, partition, err)
	}
	r := newReading(cluster, topic.Topic, topic.ID, partition)
	return r.each(ctx, start, end.Offset, func(rec *broker.Record) error {
		if rec.Attrs.IsControl() {
			return nil
		}
		return take(recordOf(rec))
	}, nil)
}

// PartitionCount returns how many partitions a topic has. A topic that does not exist is an error.
func (c *Client) PartitionCount(ctx context.Context, topic string) (int32, error) {
	details, err := c.adm.ListTopics(ctx, topic)
	if err == nil {
		err = details[topic].Err
	}
	if err != nil {
		return 0, fmt.Errorf("looking at %s: %w", topic, err)
	}
	return int32(len(details[topic].Partitions)), nil
}
