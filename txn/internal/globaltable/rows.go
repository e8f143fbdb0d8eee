package globaltable

import (
	"errors"
	"fmt"
	"iter"

	"github.com/onceward/onceward/state"
)

// Rows returns what graphs read of a table, nil for a store that is no global table.
func (ts *Tables) Rows(store string) state.Bytes {
	if t := ts.find(store); t != nil {
		return rows{t}
	}
	return nil
}

// View returns a view of a table for a query, with whether the table serves. known is false for a
// store that is no global table; the view is nil while there is no database to read.
func (ts *Tables) View(store string) (view state.View, serves, known bool, err error) {
	t := ts.find(store)
	if t == nil {
		return nil, false, false, nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.db == nil {
		return nil, false, true, nil
	}
	view, err = t.db.View()
	return view, t.serves, true, err
}

// rows are the rows of a table as they are at the moment of each call.
type rows struct{ t *table }

var (
	errNotOpen  = fmt.Errorf("the rows of the global table cannot be read: %w", state.ErrFailed)
	errReadOnly = errors.New("a global table has the records of its topic only")
)

// Get is part of state.Bytes.
func (r rows) Get(key []byte) ([]byte, bool, error) {
	r.t.mu.RLock()
	defer r.t.mu.RUnlock()
	if !r.t.serves {
		return nil, false, errNotOpen
	}
	return r.t.db.Get(r.t.id, key)
}

// Scan is part of state.Bytes.
func (r rows) Scan(in state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		r.t.mu.RLock()
		defer r.t.mu.RUnlock()
		if !r.t.serves {
			yield(state.Entry{}, errNotOpen)
			return
		}
		r.t.db.Scan(r.t.id, in)(yield)
	}
}

// Put is part of state.Bytes.
func (rows) Put(_, _ []byte) error { return errReadOnly }

// Delete is part of state.Bytes.
func (rows) Delete([]byte) error { return errReadOnly }

// StreamTime is part of state.Bytes.
func (rows) StreamTime() int64 { return 0 }

// Advance is part of state.Bytes.
func (rows) Advance(int64) {}
