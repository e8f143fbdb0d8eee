package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// End is where a partition ends: for everybody, and for readers of committed records.
type End struct {
	HighWatermark, LastStable int64
}

// Ends lists the ends of all partitions of the topics by two requests per broker, one for each isolation level. Partitions whose
// leader does not answer are left out. The two numbers of a partition are of two moments.
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
