package globaltable

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/metrics"
)

// Config is what the tables need of their process.
type Config struct {
	// Tables are the stores, each with the topic that it is read from.
	Tables    []graph.StoreInfo
	Cluster   *broker.Cluster
	Directory *state.Directory
	// Open opens the database of a table at a path.
	Open func(store, path string) (state.Database, error)

	Logger     *slog.Logger
	Metrics    *metrics.Metrics
	Failpoints failpoint.Set
}

// Tables are the global tables of a process. Their methods may be called from any goroutine.
type Tables struct {
	tables  []*table
	fetcher *broker.Fetcher
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// seatsMax is how many large answers all tables of a process hold at a time.
const seatsMax = 2

// Start begins to read. The tables go on until Close.
func Start(cfg Config) *Tables {
	ctx, cancel := context.WithCancel(context.Background())
	ts := &Tables{fetcher: cfg.Cluster.NewFetcher(), cancel: cancel}
	seats := make(chan struct{}, seatsMax)
	for _, info := range cfg.Tables {
		t := &table{
			cfg: &cfg, info: info, id: state.IDOf(info.Name), fetcher: ts.fetcher, seats: seats, serving: make(chan struct{}),
			log: cfg.Logger.With("global_table", info.Name, "topic", info.Topic()),
		}
		ts.tables = append(ts.tables, t)
	}
	for _, t := range ts.tables {
		ts.running.Go(func() { t.run(ctx) })
	}
	return ts
}

// Wait returns when every table serves, or with the error of ctx. A table serves when it has
// reached the ends that its topic had when it began to read, and until its database fails.
func (ts *Tables) Wait(ctx context.Context) error {
	if ts == nil {
		return nil
	}
	for _, t := range ts.tables {
		if err := t.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the tables and closes their databases.
func (ts *Tables) Close() error {
	ts.cancel()
	ts.running.Wait()
	ts.fetcher.Close()
	var errs []error
	for _, t := range ts.tables {
		errs = append(errs, t.close())
	}
	return errors.Join(errs...)
}

// find returns the table of a store, nil if there is none.
func (ts *Tables) find(store string) *table {
	if ts == nil {
		return nil
	}
	for _, t := range ts.tables {
		if t.info.Name == store {
			return t
		}
	}
	return nil
}
