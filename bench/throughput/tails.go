package throughput

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// tailOffsets is how far before the end of a partition its last record is looked for first. All other offsets are markers of
// transactions.
const tailOffsets = 1000

// dataEnds returns for each partition of a topic the offset behind its last committed record, which is where a group comes to: whether it
// goes past the markers behind is its own business. It is 0 where there is none.
func (c *cluster) dataEnds(ctx context.Context, brokers []string, topic string) ([]int64, error) {
	ends, err := c.settledEnds(ctx, topic)
	if err != nil {
		return nil, err
	}
	listed, err := c.adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the start of topic %s: %w", topic, err)
	}
	// left are the starts of the partitions whose last record is not known. What was deleted before them was committed.
	left := map[int32]int64{}
	for p, o := range listed[topic] {
		if o.Offset < ends[p] {
			left[p] = o.Offset
		}
	}
	behind := make([]int64, len(ends))
	for back := int64(tailOffsets); len(left) > 0; back *= 10 {
		from := map[int32]int64{}
		for p, start := range left {
			from[p] = max(start, ends[p]-back)
		}
		if err := lastRecords(ctx, brokers, topic, from, ends, behind); err != nil {
			return nil, fmt.Errorf("looking for the last records of topic %s: %w", topic, err)
		}
		for p, start := range left {
			if behind[p] > 0 || ends[p]-back <= start {
				delete(left, p)
			}
		}
	}
	return behind, nil
}

// lastRecords reads partitions from some offsets to their ends, and notes the offset behind the last record of each.
func lastRecords(ctx context.Context, brokers []string, topic string, from map[int32]int64, ends, behind []int64) error {
	offsets := map[int32]kgo.Offset{}
	for p, at := range from {
		offsets[p] = kgo.NewOffset().At(at)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))
	if err != nil {
		return err
	}
	defer cl.Close()
	for len(from) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() && r.Offset < ends[r.Partition] {
				behind[r.Partition] = r.Offset + 1
			}
			if r.Offset+1 >= ends[r.Partition] {
				delete(from, r.Partition)
			}
		})
	}
	return nil
}
