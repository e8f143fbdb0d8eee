package memstore_test

import (
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/state/statetest"
)

func TestConformance(t *testing.T) {
	statetest.Run(t, func(*testing.T) state.Database { return memstore.New() })
	open := func(*testing.T) func() (state.Database, error) {
		db := unclosed{memstore.New()}
		return func() (state.Database, error) { return db, nil }
	}
	statetest.RunStores(t, open)
}

// unclosed is a database that is as it was when it is opened again.
type unclosed struct{ state.Database }

func (unclosed) Close() error { return nil }
