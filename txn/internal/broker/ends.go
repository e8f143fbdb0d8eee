package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// End is where a partition ends: for everybody, and for readers of committed records.
type End struct {
	HighWatermark, LastStable int64
}

// Ends lists the ends of all partitions of the topics by two requests per broker, one for each
// isolation level. Partitions whose leader does not answer are left out. The two numbers of a
// partition are of two moments.
func (c *Cluster) Ends(ctx context.Context, topics ...string) (map[string]map[int32]End, error) {
	high, err := c.adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("listing the ends of %d topics: %w", len(topics), err)
	}
	stable, err := c.adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("listing the stable ends of %d topics: %w", len(topics), err)
	}
	out := map[string]map[int32]End{}
	high.Each(func(h kadm.ListedOffset) {
		s, ok := stable.Lookup(h.Topic, h.Partition)
		if h.Err != nil || !ok || s.Err != nil {
			return
		}
		if out[h.Topic] == nil {
			out[h.Topic] = map[int32]End{}
		}
		out[h.Topic][h.Partition] = End{HighWatermark: h.Offset, LastStable: s.Offset}
	})
	return out, nil
}

// FirstSince returns, for each partition, the offset of its first record, markers of transactions
// included, whose timestamp is at least the given time in milliseconds since the epoch; -1 where
// there is none. Partitions whose leader does not answer are left out.
func (c *Cluster) FirstSince(ctx context.Context, times map[string]map[int32]int64) (map[string]map[int32]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	for topic, partitions := range times {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for p, ms := range partitions {
			asked := kmsg.NewListOffsetsRequestTopicPartition()
			asked.Partition, asked.Timestamp = p, ms
			t.Partitions = append(t.Partitions, asked)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, fmt.Errorf("listing the first offsets since a time of %d topics: %w", len(times), err)
	}
	out := map[string]map[int32]int64{}
	for _, t := range resp.Topics {
		out[t.Topic] = map[int32]int64{}
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				out[t.Topic][p.Partition] = p.Offset
			}
		}
	}
	return out, nil
}
