package pgsink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/topology"
)

// TestMetrics: what happens is counted once it has committed, and the lag is that of the partition.
func TestMetrics(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		registry := prometheus.NewRegistry()
		sink := s.sink("a", func(c *Config) {
			c.Metrics = registry
			c.Apply = Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
				if string(r.Value) == "0-3" {
					return errors.New("bad")
				}
				return effect(ctx, tx, r)
			})
		})
		s.produce(1, 20)
		stop := s.start(sink)
		s.count--
		s.awaitEnd()
		pgtest.Await(s.t, "the last batch is counted", func() bool { return testutil.ToFloat64(sink.metrics.applied) == 19 })
		expected := strings.ReplaceAll(`
			# HELP onceward_postgres_sink_records_total Records whose offset was passed, by what became of them.
			# TYPE onceward_postgres_sink_records_total counter
			onceward_postgres_sink_records_total{outcome="applied",sink="NAME"} 19
			onceward_postgres_sink_records_total{outcome="dead-lettered",sink="NAME"} 0
			onceward_postgres_sink_records_total{outcome="quarantined",sink="NAME"} 1
			# HELP onceward_postgres_sink_fenced_total Sessions that ended because a partition had another owner.
			# TYPE onceward_postgres_sink_fenced_total counter
			onceward_postgres_sink_fenced_total{sink="NAME"} 0
		`, "NAME", s.name)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(expected), "onceward_postgres_sink_records_total", "onceward_postgres_sink_fenced_total"); err != nil {
			s.t.Error(err)
		}
		if lag := testutil.ToFloat64(sink.metrics.lag.WithLabelValues(s.name, s.topic, "0")); lag > 1 { // the end of the transaction
			s.t.Errorf("the lag is %v", lag)
		}
		stop()
		if n, err := testutil.GatherAndCount(registry, "onceward_postgres_sink_lag_records"); n != 0 || err != nil {
			s.t.Errorf("%d gauges of partitions that were given up, %v", n, err)
		}
		s.sink("b", func(c *Config) { c.Metrics = registry }) // shares them
	})
}

// TestGaugesOfAStuckPartition: while a batch fails, the age of its oldest record grows, and the lag
// is that of the partition, also of records that are not fetched because the partition is paused.
func TestGaugesOfAStuckPartition(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		sink := s.sink("a", func(c *Config) {
			c.Attempts = 1_000_000
			c.Apply = func(context.Context, pgx.Tx, []*kgo.Record) error {
				return topology.Fail(topology.Transient, errors.New("a dependency is down"))
			}
		})
		sink.measureEvery = 10 * time.Millisecond
		s.produce(1, 100)
		s.start(sink)
		lag := sink.metrics.lag.WithLabelValues(s.name, s.topic, "0")
		pending := sink.metrics.pending.WithLabelValues(s.name, s.topic, "0")
		pgtest.Await(s.t, "a record is at work", func() bool { return testutil.ToFloat64(pending) > 0 })
		s.produce(1, 300)
		pgtest.Await(s.t, "the lag has all records", func() bool { return testutil.ToFloat64(lag) >= 400 })
		before := testutil.ToFloat64(pending)
		pgtest.Await(s.t, "the oldest record gets older", func() bool { return testutil.ToFloat64(pending) > before })
	})
}
