package control

import (
	"context"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// countMax is how many keys are counted without being asked for it: estimates are poor for few
// keys, and few are counted at once.
const countMax = 10_000

// Measure returns the size of one store in the wanted detail: its keys are counted in rows if that
// is asked for or if they are few, and otherwise estimated from the tables of estimates, which may
// be ahead of rows.
func Measure(ctx context.Context, store state.Declaration, rows, estimates state.Reader, d Detail) (StoreState, error) {
	out := StoreState{Name: store.Name, Layout: store.Layout.String()}
	if d != Estimates && d != Counts {
		return out, nil
	}
	id := state.IDOf(store.Name)
	e, _, err := pebblestore.EstimateOf(estimates, id)
	if err != nil {
		return out, err
	}
	out.DiskBytes = e.DiskBytes
	for _, err := range rows.Scan(id, state.Range{}) {
		if err == nil && out.Keys%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return out, err
		}
		if out.Keys++; out.Keys > countMax && d != Counts {
			out.Keys = max(e.Keys, out.Keys)
			return out, nil
		}
	}
	out.Counted = true
	return out, nil
}
