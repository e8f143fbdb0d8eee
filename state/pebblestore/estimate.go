package pebblestore

import (
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/onceward/onceward/state"
)

// Estimate is the approximate size of a store, from its tables. Writes that are in no table do not
// count, and keys that were written again count more than once until they are compacted.
type Estimate struct {
	// DiskBytes are in memory for a store of Options.InMemory.
	Keys, DiskBytes int64
}

// EstimateOf estimates one store of a database or read-only database of this package; ok is false
// for another one. It reads properties of tables, and no data.
func EstimateOf(r state.Reader, store state.StoreID) (e Estimate, ok bool, err error) {
	var d *database
	switch r := r.(type) {
	case *database:
		d = r
	case *readOnly:
		d = r.d
	case *split:
		d = r.of(store)
	default:
		return Estimate{}, false, nil
	}
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usableLocked("estimate"); err != nil {
		return Estimate{}, true, err
	}
	lower, upper := bounds(store, state.Range{})
	levels, err := d.db.SSTables(pebble.WithProperties(), pebble.WithKeyRangeFilter(lower, upper), pebble.WithApproximateSpanBytes())
	if err = d.fault.read("estimate", err); err != nil {
		return Estimate{}, true, err
	}
	total := 0.0
	for _, level := range levels {
		for _, table := range level {
			if table.Properties == nil || table.Size == 0 {
				return Estimate{}, true, fmt.Errorf("pebblestore: estimate in %s: a table has no properties", d.path)
			}
			// A table has rows of several stores: each has about its share of the bytes.
			keys := float64(table.Properties.NumEntries) - 2*float64(table.Properties.NumDeletions)
			share := min(float64(table.ApproximateSpanBytes)/float64(table.Size), 1)
			total += max(keys, 0) * share
			e.DiskBytes += int64(table.ApproximateSpanBytes)
		}
	}
	e.Keys = int64(math.Ceil(total))
	return e, true, nil
}
