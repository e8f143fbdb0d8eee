package pgqueue

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// Queue stores the events of one name, and hands them to a handler. It is safe for concurrent use,
// by any number of processes.
type Queue struct {
	config  Config
	owner   string
	metrics metrics

	// Tests replace these fields: see export_test.go.
	at        func(ctx context.Context, point string, e *Entry) error
	settleSQL string
}

// channel is what workers of all queues of a database listen on.
const channel = "onceward_queue"

// New returns a queue. It does not ask the database: missing tables show at the first use.
func New(c Config) (*Queue, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("pgqueue: %w", err)
	}
	q := &Queue{config: c, owner: work.Owner(), settleSQL: settleEntry}
	q.at = func(context.Context, string, *Entry) error { return nil }
	if q.metrics, err = newMetrics(c.Metrics, c.Name); err != nil {
		return nil, fmt.Errorf("pgqueue: %w", err)
	}
	return q, nil
}

// failed returns the error of an operation, nil for nil.
func (q *Queue) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgqueue: %s: %s: %w", q.config.Name, op, err)
}

var errLimit = errors.New("the limit is 1 or more")
