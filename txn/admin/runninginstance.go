package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/control"
)

// running is an instance that answers on the control socket of its state directory.
type running struct{ dir string }

func (r running) Close() error { return nil }

func (r running) tasks(ctx context.Context, d Detail) ([]TaskState, error) {
	answer, err := control.States(ctx, r.dir, control.Detail(d))
	if err != nil {
		return nil, named(err)
	}
	tasks := make([]TaskState, len(answer))
	for i, t := range answer {
		tasks[i].At = atOf(t.StateAt)
		for _, s := range t.Stores {
			layout, err := state.ParseLayout(s.Layout)
			if err != nil {
				return nil, fmt.Errorf("store %s: %w", s.Name, err)
			}
			store := StoreState{
				Name: s.Name, Layout: layout, Keys: s.Keys, Counted: s.Counted, DiskBytes: s.DiskBytes, Changelog: s.Changelog, Partitions: s.Partitions, End: -1,
				FromSource: s.FromSource, InMemory: s.InMemory,
			}
			if s.End != nil {
				store.End = *s.End
			}
			tasks[i].Stores = append(tasks[i].Stores, store)
		}
	}
	return tasks, nil
}

func (r running) get(ctx context.Context, store string, partition int32, key []byte, stale bool) (Row, error) {
	row, err := control.RowOf(ctx, r.dir, store, partition, key, stale)
	if err != nil {
		return Row{}, named(err)
	}
	return Row{At: atOf(row.StateAt), Found: row.Found, Value: row.Value}, nil
}

func (r running) scan(ctx context.Context, q ScanRequest) (*Scan, error) {
	rows, err := control.OpenRows(ctx, r.dir, control.RowsRequest{
		Store: q.Store, Partition: q.Partition, Range: q.Range, Limit: q.Limit, Stale: q.Stale,
	})
	if err != nil {
		return nil, named(err)
	}
	return &Scan{At: atOf(rows.At), close: rows.Close, rows: func(yield func(state.Entry, error) bool) {
		for e, err := range rows.All() {
			if !yield(e, named(err)) {
				return
			}
		}
	}}, nil
}

func atOf(at control.StateAt) At {
	out := At{
		Task: graph.TaskID{Subtopology: at.Subtopology, Partition: at.Partition}, Positions: at.Positions,
		Epoch: txn.Epoch{Member: at.Member, Revokes: at.Revokes},
	}
	if at.Stale != nil {
		out.Stale = named(at.Stale)
	}
	return out
}

// reasons are the errors that cross the socket by name.
var reasons = map[string]error{
	control.ReasonNotServing: txn.ErrNotServing, control.ReasonRestoring: txn.ErrRestoring, control.ReasonStopped: txn.ErrTaskStopped,
	control.ReasonInDoubt: txn.ErrInDoubt, control.ReasonLost: txn.ErrOwnershipLost, control.ReasonUnknownStore: state.ErrUnknownStore,
	control.ReasonCorrupt: state.ErrCorrupt, control.ReasonFailed: state.ErrFailed, control.ReasonClosed: state.ErrClosed,
}

// named gives an error that crossed the socket its identity back.
func named(err error) error {
	refusal, ok := errors.AsType[*control.Refusal](err)
	if !ok || reasons[refusal.Reason] == nil {
		return err
	}
	return &refused{err, reasons[refusal.Reason]}
}

// refused is an error of another process.
type refused struct{ answer, is error }

func (r *refused) Error() string   { return r.answer.Error() }
func (r *refused) Unwrap() []error { return []error{r.answer, r.is} }
