// Package load writes input as fast as the cluster takes it.
package load

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is one record to write to a given partition.
type Record struct {
	Partition  int32
	Key, Value []byte
	Timestamp  time.Time
}

// Write produces the records to a topic with an idempotent producer, in their order per partition,
// and returns when all of them are acknowledged. It stops at the first failure; what was
// acknowledged until then stays.
func Write(ctx context.Context, brokers []string, topic string, records iter.Seq[Record]) (n int, err error) {
	w, err := NewWriter(brokers, topic)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	return w.Write(ctx, records)
}

// Writer writes to one topic piece by piece. It is not for concurrent use.
type Writer struct {
	topic string
	cl    *kgo.Client
}

// NewWriter returns a writer for the topic. Close ends it.
func NewWriter(brokers []string, topic string) (*Writer, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(100_000),
		kgo.ProducerBatchCompression(kgo.NoCompression())) // else whoever reads it pays for what only the load has chosen
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", topic, err)
	}
	return &Writer{topic: topic, cl: cl}, nil
}

// Write produces the records in their order per partition, behind what was written before, and
// returns when all of them are acknowledged. It stops at the first failure; what was acknowledged
// until then stays.
func (w *Writer) Write(ctx context.Context, records iter.Seq[Record]) (n int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for r := range records {
		if ctx.Err() != nil {
			break
		}
		n++
		w.cl.Produce(ctx, &kgo.Record{Topic: w.topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp},
			func(_ *kgo.Record, err error) {
				if err != nil {
					cancel(err)
				}
			})
	}
	if err := w.cl.Flush(ctx); err != nil {
		return n, fmt.Errorf("writing %s: %w", w.topic, context.Cause(ctx))
	}
	if err := context.Cause(ctx); err != nil {
		return n, fmt.Errorf("writing %s: %w", w.topic, err)
	}
	return n, nil
}

// Close ends the writer's connections.
func (w *Writer) Close() { w.cl.Close() }
