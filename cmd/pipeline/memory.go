package pipeline

import (
	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/topology"
)

// inMemory is the key that has the rows of a store in memory.
const inMemory = "in_memory"

// rowsIn says where the rows of a store are. The zero value is the disk.
type rowsIn struct{ memory bool }

func readRowsIn(m yamldoc.Mapping) rowsIn { return rowsIn{memory: m.Optional(inMemory).Bool()} }

// placed returns the store with its rows there.
func placed[S any](rows rowsIn, store topology.Store[S]) topology.Store[S] {
	if rows.memory {
		return store.InMemory()
	}
	return store
}
