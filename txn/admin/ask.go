package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Question is a record for every task that reads a topic of commands. Such tasks are those of a
// projection.Choose: each of them obeys the copy in its partition, and answers it in another topic
// under the same key.
type Question struct {
	// Topic takes the copies, Answers the answers. The copy for partition P has the key ID/P, so
	// that answers can be told from each other, wherever their own partitioning puts them; no two
	// questions have one ID.
	Topic, Answers string
	ID             string
	Value          []byte
}

// Ask writes the copies, and waits for an answer to each of them, or until ctx ends. It returns the
// answers by the partitions of the copies, with an error those that have come. Answers that were
// there before are not taken.
//
// A copy is a plain record, outside of any transaction: after an error it may have been written or
// not. So receivers must treat a second question with the same ID as a repetition.
func (c *Client) Ask(ctx context.Context, q Question) (map[int32]Record, error) {
	count, err := c.PartitionCount(ctx, q.Topic)
	if err != nil {
		return nil, err
	}
	ends, err := c.adm.ListCommittedOffsets(ctx, q.Answers)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("listing the stable end of %s: %w", q.Answers, err)
	}
	from := map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) { from[o.Partition] = kgo.NewOffset().At(o.Offset) })
	cl, err := kgo.NewClient(append(c.cfg.Options(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{q.Answers: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", q.Topic, err)
	}
	defer cl.Close()
	copies, open := make([]*kgo.Record, count), map[string]int32{}
	for p := range copies {
		key := q.ID + "/" + strconv.Itoa(p)
		copies[p], open[key] = &kgo.Record{Topic: q.Topic, Partition: int32(p), Key: []byte(key), Value: q.Value}, int32(p)
	}
	if err := cl.ProduceSync(ctx, copies...).FirstErr(); err != nil {
		return nil, fmt.Errorf("asking %s: %w", q.Topic, err)
	}
	answers := map[int32]Record{}
	for len(open) > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return answers, fmt.Errorf("waiting for the answers of partitions %v of %s in %s: %w",
				slices.Sorted(maps.Values(open)), q.Topic, q.Answers, context.Cause(ctx))
		}
		var failed error
		fetches.EachError(func(topic string, p int32, err error) { failed = fmt.Errorf("reading %s[%d]: %w", topic, p, err) })
		if failed != nil {
			return answers, failed
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if p, asked := open[string(r.Key)]; asked {
				answers[p] = recordOf(r)
				delete(open, string(r.Key))
			}
		})
	}
	return answers, nil
}
