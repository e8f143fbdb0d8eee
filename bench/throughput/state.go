package throughput

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// stateReader compares the state that an application has left with what it has to be.
type stateReader struct {
	*admin.State
	workload workload.Workload
	codecs   graph.Rows
	// rows is the number of rows that were compared or counted.
	rows int64
}

func openState(ctx context.Context, cfg CheckConfig, w workload.Workload) (*stateReader, error) {
	t, err := w.Topology(cfg.Application, workload.Topics{In: cfg.In, Out: cfg.Out, Dead: deadTopic(cfg.Application)})
	if err != nil {
		return nil, err
	}
	codecs, ok := t.Rows(w.Store)
	if !ok {
		return nil, fmt.Errorf("the topology of workload %s has no store %s", w.Name, w.Store)
	}
	s, err := admin.OpenState(ctx, cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("opening the state of %s: %w", cfg.Application, err)
	}
	return &stateReader{State: s, workload: w, codecs: codecs}, nil
}

// compare compares the rows of some partitions with what the outputs say.
func (s *stateReader) compare(ctx context.Context, partitions []int32, want map[workload.Account]workload.Sum, events int64) error {
	var keys, seen int64
	for _, p := range partitions {
		n, err := s.comparePartition(ctx, p, want)
		if err != nil {
			return err
		}
		keys += n
		if s.workload.Inbox != "" {
			if n, err = s.count(ctx, s.workload.Inbox, p); err != nil {
				return err
			}
			seen += n
		}
	}
	s.rows += keys + seen
	if keys != int64(len(want)) {
		return fmt.Errorf("%w: store %s has %d rows, and there are outputs for %d keys", ErrWrong, s.workload.Store, keys, len(want))
	}
	if s.workload.Inbox != "" && seen != events {
		return fmt.Errorf("%w: store %s has %d rows, and there were %d events", ErrWrong, s.workload.Inbox, seen, events)
	}
	return nil
}

// comparePartition returns how many rows a partition of the store has.
func (s *stateReader) comparePartition(ctx context.Context, p int32, want map[workload.Account]workload.Sum) (n int64, err error) {
	scan, err := s.scan(ctx, s.workload.Store, p)
	if scan == nil || err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, scan.Close()) }()
	for row, err := range scan.Rows() {
		if err != nil {
			return n, fmt.Errorf("reading store %s[%d]: %w", s.workload.Store, p, err)
		}
		n++
		key, err := s.codecs.Key(row.Key)
		if err != nil {
			return n, fmt.Errorf("%w: store %s[%d]: %w", ErrWrong, s.workload.Store, p, err)
		}
		value, err := s.codecs.Value(row.Value)
		if err != nil {
			return n, fmt.Errorf("%w: store %s[%d]: %w", ErrWrong, s.workload.Store, p, err)
		}
		account, sum, err := workload.SumOf(key, value)
		if err == nil && want[account] != sum {
			err = errors.New("a row is not the last output of its key")
		}
		if err != nil {
			return n, fmt.Errorf("%w: store %s[%d]: %w", ErrWrong, s.workload.Store, p, err)
		}
	}
	return n, nil
}

// count returns how many rows a partition of a store has.
func (s *stateReader) count(ctx context.Context, store string, p int32) (n int64, err error) {
	scan, err := s.scan(ctx, store, p)
	if scan == nil || err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, scan.Close()) }()
	for _, err := range scan.Rows() {
		if err != nil {
			return n, fmt.Errorf("reading store %s[%d]: %w", store, p, err)
		}
		n++
	}
	return n, nil
}

// scan begins to read a partition of a store. It returns nil for a partition that no task has
// opened: its input had no records.
func (s *stateReader) scan(ctx context.Context, store string, p int32) (*admin.Scan, error) {
	scan, err := s.Scan(ctx, admin.ScanRequest{Store: store, Partition: p})
	if errors.Is(err, txn.ErrNotServing) && !errors.Is(err, txn.ErrRestoring) || errors.Is(err, state.ErrUnknownStore) {
		return nil, nil //nolint:nilnil // compare says so if rows are missing
	}
	return scan, err
}
