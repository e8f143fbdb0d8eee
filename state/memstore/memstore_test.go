package memstore_test

import (
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/state/statetest"
)

func TestConformance(t *testing.T) {
	statetest.Run(t, func(*testing.T) state.Database { return memstore.New() })
}

// kept is a store that stays when it is closed.
type kept struct{ *memstore.Store }

func (kept) Close() error { return nil }

func TestStores(t *testing.T) {
	statetest.RunStores(t, func(*testing.T) statetest.Reopen {
		db := memstore.New()
		return func() (state.Database, error) { return kept{db}, nil }
	})
}
