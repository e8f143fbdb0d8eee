package throughput

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/onceward/onceward/bench/load"
	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/topology/graph"
)

// FillConfig is an input to write.
type FillConfig struct {
	Brokers  []string
	Workload string
	// Topic is made if it is not there. It must not have records.
	Topic      string
	Partitions int32
	Records    int64
	// Interval is the time between two records by their clocks, of which the last one is about now.
	// It gives windows an input that lasts longer than the writing. Zero takes the time of the
	// writing.
	Interval time.Duration
	Input    workload.Input
}

// Filled says what was written.
type Filled struct {
	Workload   string  `json:"workload"`
	Topic      string  `json:"topic"`
	Partitions int32   `json:"partitions"`
	Records    int64   `json:"records"`
	Bytes      int64   `json:"bytes"`
	Seconds    float64 `json:"seconds"`
	// Interval is that of the configuration, in nanoseconds.
	Interval time.Duration `json:"interval,omitempty"`
	workload.Input
}

// String is what was written, for people.
func (f Filled) String() string {
	return fmt.Sprintf("%d records, %.1f MB, were written to the %d partitions of %s in %.1f s", f.Records, float64(f.Bytes)/1e6,
		f.Partitions, f.Topic, f.Seconds)
}

// Fill writes an input. The same configuration writes the same records, but for the clocks in them.
func Fill(ctx context.Context, cfg FillConfig) (Filled, error) {
	w, err := workload.Find(cfg.Workload)
	if err != nil {
		return Filled{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if cfg.Records < 1 || cfg.Partitions < 1 {
		return Filled{}, fmt.Errorf("%w: %d records in %d partitions are no input", ErrUnusable, cfg.Records, cfg.Partitions)
	}
	if cfg.Interval < 0 {
		return Filled{}, fmt.Errorf("%w: the interval between records is negative", ErrUnusable)
	}
	cfg.Input = w.Uses(cfg.Input)
	source, err := w.NewSource(cfg.Input)
	if err != nil {
		return Filled{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	c, err := connect(cfg.Brokers)
	if err != nil {
		return Filled{}, err
	}
	defer c.close()
	if err := create(ctx, cfg.Brokers, cfg.Partitions, cfg.Topic); err != nil {
		return Filled{}, err
	}
	ends, err := c.ends(ctx, cfg.Topic)
	if err != nil {
		return Filled{}, err
	}
	if sum(ends) > 0 {
		return Filled{}, fmt.Errorf("%w: topic %s has records already; name another one", ErrUnusable, cfg.Topic)
	}
	began, bytes := time.Now(), int64(0)
	n, err := load.Write(ctx, cfg.Brokers, cfg.Topic, records(source, cfg, &bytes))
	return Filled{
		Workload: w.Name, Topic: cfg.Topic, Partitions: cfg.Partitions, Records: int64(n), Bytes: bytes,
		Seconds: time.Since(began).Seconds(), Interval: cfg.Interval, Input: cfg.Input,
	}, err
}

// records are the records of a source, and adds up the bytes of their keys and values. No two have
// the same clock.
func records(source workload.Source, cfg FillConfig, bytes *int64) iter.Seq[load.Record] {
	return func(yield func(load.Record) bool) {
		clock := time.Now().Add(-time.Duration(cfg.Records) * cfg.Interval).UnixNano()
		for range cfg.Records {
			if cfg.Interval > 0 {
				clock += cfg.Interval.Nanoseconds()
			} else {
				clock = max(clock+1, time.Now().UnixNano())
			}
			r := source.Next(clock)
			*bytes += int64(len(r.Key) + len(r.Value))
			if !yield(load.Record{
				Partition: graph.PartitionOf(r.Key, cfg.Partitions), Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp),
			}) {
				return
			}
		}
	}
}
