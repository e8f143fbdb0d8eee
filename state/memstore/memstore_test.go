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
