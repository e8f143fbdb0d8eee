package pgsink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// Sink is one instance of a sink.
type Sink struct {
	config  Config
	metrics metrics
	slots   chan struct{} // one for each transaction that is at work

	queueMax        int // records in the queue of a partition that pause it
	contendedCounts int
	restMax         time.Duration
	measureEvery    time.Duration

	// Tests replace these functions: see export_test.go.
	at      func(ctx context.Context, point string, w *worker) error
	moveSQL string
	resolve func(w *worker, ctx context.Context, next int64, commitErr error) error

	isolation kgo.IsolationLevel
}

// New returns a sink. It asks neither Kafka nor the database.
func New(c Config) (*Sink, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("pgsink: %w", err)
	}
	s := &Sink{config: c, slots: make(chan struct{}, c.Parallel), moveSQL: moveOffset, queueMax: max(queueRecordsMax, 2*c.BatchRecords), contendedCounts: contendedCounts, restMax: restMax,
		measureEvery: measureEvery}
	s.at = func(context.Context, string, *worker) error { return nil }
	s.resolve = (*worker).resolve
	s.isolation = kgo.ReadCommitted()
	if s.metrics, err = newMetrics(c.Metrics, c.Name); err != nil {
		return nil, fmt.Errorf("pgsink: %w", err)
	}
	return s, nil
}

// Run reads and applies until the context ends, and returns nil then. Any other end is an error: a
// [*Failure] names the record that it is about. It can be called again afterwards. One Run at a
// time is enough: the group shares the partitions among instances.
func (s *Sink) Run(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := s.session(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the caller has asked for this end
		case errors.Is(err, errFenced):
			s.metrics.fenced.Inc()
			s.config.Logger.Warn("a partition has another owner; the sink joins the group again", "reason", err)
		case work.Own(err) && !hopeless(err):
			s.config.Logger.Warn("the database cannot be used; the sink joins the group again after a pause", "reason", work.Reason(err))
		case passes(err):
			s.config.Logger.Warn("Kafka does not answer; the sink joins the group again after a pause", "error", err)
		default:
			return fmt.Errorf("pgsink: %s: %w", s.config.Name, err)
		}
		if !work.Wait(ctx, nil, work.Pause(min(failures, 5), rejoinPause, pauseMax)) {
			return nil
		}
	}
}

// The pauses before something is tried again. They double, up to a limit.
const (
	pauseMin      = 100 * time.Millisecond
	pauseMax      = 30 * time.Second
	contentionMin = 5 * time.Millisecond
	contentionMax = time.Second
	rejoinPause   = 100 * time.Millisecond
)
