package throughput

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/workload"
)

// reader reads the committed records of a partition from one offset to another.
type reader struct {
	cl        *kgo.Client
	topic     string
	partition int32
	// next offset to come, and where to end. With nothing between them there is no client.
	at, end int64
	iter    *kgo.FetchesRecordIter
}

func newReader(brokers []string, topic string, partition int32, from, end int64) (*reader, error) {
	r := &reader{topic: topic, partition: partition, at: from, end: end}
	if from >= end {
		return r, nil
	}
	// Markers are kept because the last offset of a partition is usually one's, and shows that
	// nothing is to come.
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}))
	if err != nil {
		return nil, fmt.Errorf("reading %s[%d]: %w", topic, partition, err)
	}
	r.cl = cl
	return r, nil
}

func (r *reader) close() {
	if r.cl != nil {
		r.cl.Close()
	}
}

// next returns the next record, nil behind the last one.
func (r *reader) next(ctx context.Context) (*kgo.Record, error) {
	for r.at < r.end {
		if r.iter == nil || r.iter.Done() {
			fetches := r.cl.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return nil, fmt.Errorf("reading %s[%d]: %w", r.topic, r.partition, err)
			}
			r.iter = fetches.RecordIter()
			continue
		}
		rec := r.iter.Next()
		r.at = rec.Offset + 1
		if !rec.Attrs.IsControl() && rec.Offset < r.end {
			return rec, nil
		}
	}
	return nil, nil //nolint:nilnil // nothing is left to read
}

// judged is a record as a judge takes it.
func judged(r *kgo.Record) workload.Record {
	return workload.Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp.UnixMilli(), Partition: r.Partition}
}
