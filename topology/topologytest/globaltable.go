package topologytest

import (
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// globalTable is a global table in memory. A record that is written to its topic is a row at once.
type globalTable struct {
	store string
	row   graph.RowReader
	rows  map[string][]byte
}

func newGlobalTable(info graph.StoreInfo) *globalTable {
	return &globalTable{store: info.Name, row: info.FromSource.Reader(), rows: map[string][]byte{}}
}

// skipped is what a global table counts for a record that makes no row, under the name of its
// store.
const skipped = "skipped"

// take makes the row of a record. One that makes none is counted.
func (t *globalTable) take(d *Driver, r *Raw) {
	switch w, ok, err := t.row(r.Key, r.Value, r.Timestamp); {
	case err != nil || !ok:
		d.counts[outcome{t.store, skipped}]++
	case w.Delete:
		delete(t.rows, string(w.Key))
	default:
		t.rows[string(w.Key)] = w.Value
	}
}

// globalTable returns the rows of a global table by the name of its store, nil for another name.
func (d *Driver) globalTable(store string) state.Bytes {
	for _, t := range d.globals {
		if t.store == store {
			return globalRows{t.rows}
		}
	}
	return nil
}

// globalRows are the rows of a global table, to be read.
type globalRows struct{ rows map[string][]byte }

var errReadOnly = errors.New("a global table has what is written to its topic, and nothing else")

func (g globalRows) Get(key []byte) ([]byte, bool, error) {
	value, ok := g.rows[string(key)]
	return slices.Clone(value), ok, nil
}

func (g globalRows) Scan(r state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		keys := slices.Sorted(maps.Keys(g.rows))
		if r.Reverse {
			slices.Reverse(keys)
		}
		for _, key := range keys {
			if r.Contains([]byte(key)) && !yield(state.Entry{Key: []byte(key), Value: slices.Clone(g.rows[key])}, nil) {
				return
			}
		}
	}
}

func (globalRows) Put(_, _ []byte) error { return errReadOnly }
func (globalRows) Delete([]byte) error   { return errReadOnly }
func (globalRows) StreamTime() int64     { return 0 }
func (globalRows) Advance(int64)         {}
