package testapp

import (
	"errors"
	"strconv"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// Query reads the totals of all partitions that this process serves. Their bytes are not known
// here, so only what they mean is compared.
func (a Accounts) Query(app *txn.App) ([]check.State, error) {
	var states []check.State
	for _, task := range app.Status().Tasks {
		partition := task.ID.Partition
		var st *check.State
		var err error
		switch {
		case task.ID.Subtopology == ByOther:
			st, err = queryStore(app, a.Counts, partition, a.RepartitionTopic(), TotalOfCount)
		case a.Parts.Ledger:
			st, err = queryStore(app, a.Balances, partition, a.prefix+In, TotalOfSum)
		default:
			continue
		}
		switch {
		case errors.Is(err, txn.ErrNotServing):
		case err != nil:
			return nil, err
		default:
			states = append(states, *st)
		}
	}
	return states, nil
}

func queryStore[V any](
	app *txn.App, store topology.Store[state.KeyValue[string, V]], partition int32, input string, total func(string, V) (check.Total, error),
) (*check.State, error) {
	view, err := txn.Read(app, store, partition)
	if err != nil {
		return nil, err
	}
	defer func() { _ = view.Close() }() // reading is over; its error can say nothing new
	in, _ := view.Positions().Input(input, partition)
	st := &check.State{Store: store.Name(), Partition: partition, Source: "query", Next: in.Offset, Rows: check.NoRows}
	for pair, err := range view.Store().All() {
		if errors.Is(err, state.ErrClosed) {
			return nil, txn.ErrNotServing // revoked while it was read
		}
		if err != nil {
			return nil, err
		}
		t, err := total(pair.Key, pair.Value)
		if err != nil {
			return nil, err
		}
		st.Totals = append(st.Totals, t)
	}
	return st, nil
}

// TotalOfSum is a row of the ledger's balances as the checker wants it.
func TotalOfSum(key string, s ledger.Sum) (check.Total, error) {
	k, err := strconv.ParseUint(key, 10, 32)
	return check.Total{Key: uint32(k), Count: s.Count, Sum: s.Amounts[0]}, err
}

// TotalOfCount is a row of the counts as the checker wants it.
func TotalOfCount(key string, t Total) (check.Total, error) {
	k, err := strconv.ParseUint(key, 10, 32)
	return check.Total{Key: uint32(k), Count: t.Count, Sum: t.Sum}, err
}
