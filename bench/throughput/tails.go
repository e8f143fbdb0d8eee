package throughput

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// tailOffsets is how far before the end of a partition its last record is looked for first. All
	// other offsets are markers of transactions.
	tailOffsets = 1000
	// tailTimeout is how long the ends of partitions are read before it is asked anew where they
	// start: what an application deletes meanwhile does not come.
	tailTimeout = 2 * time.Second
	// tailMax is beyond every partition.
	tailMax = 1 << 50
)

// dataEnds returns for each partition of a topic the offset behind its last committed record, which
// is where a group comes to: whether it goes past the markers behind is its own business. It is 0
// where there is none.
func (c *cluster) dataEnds(ctx context.Context, brokers []string, topic string) ([]int64, error) {
	ends, err := c.settledEnds(ctx, topic)
	if err != nil {
		return nil, err
	}
	behind := make([]int64, len(ends))
	// left are the partitions whose last record is not known.
	left := map[int32]bool{}
	for p := range ends {
		left[int32(p)] = true
	}
	for back := int64(tailOffsets); ; back = min(10*back, tailMax) {
		starts, err := offsets(ctx, topic, c.adm.ListStartOffsets)
		if err != nil {
			return nil, err
		}
		from := map[int32]int64{}
		for p := range left {
			if starts[p] < ends[p] { // what was deleted before was committed
				from[p] = max(starts[p], ends[p]-back)
			}
		}
		if len(from) == 0 {
			return behind, nil
		}
		read, err := lastRecords(ctx, brokers, topic, from, ends, behind)
		if err != nil {
			return nil, fmt.Errorf("looking for the last records of topic %s: %w", topic, err)
		}
		for _, p := range read {
			if behind[p] > 0 || from[p] == starts[p] {
				delete(left, p)
			}
		}
	}
}

// lastRecords reads partitions from some offsets to their ends, and notes the offset behind the
// last record of each. It returns the partitions that it has read to their ends: some may be
// shorter by now.
func lastRecords(
	ctx context.Context, brokers []string, topic string, from map[int32]int64, ends, behind []int64,
) (read []int32, err error) {
	begins := map[int32]kgo.Offset{}
	for p, at := range from {
		begins[p] = kgo.NewOffset().At(at)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: begins}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	due, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	done := map[int32]bool{}
	for len(read) < len(from) {
		fetches := cl.PollFetches(due)
		if err := fetches.Err(); err != nil {
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				return read, nil
			}
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() && r.Offset < ends[r.Partition] {
				behind[r.Partition] = r.Offset + 1
			}
			if r.Offset+1 >= ends[r.Partition] && !done[r.Partition] {
				done[r.Partition], read = true, append(read, r.Partition)
			}
		})
	}
	return read, nil
}
