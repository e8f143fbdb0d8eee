package graph

import "github.com/onceward/onceward/state"

// State is the task's state as the graph needs it. *state.Task implements it.
type State interface {
	// Store returns the store of that name. The graph asks only for stores that its subtopology
	// declares.
	Store(name string) state.Bytes
	// Mark begins a savepoint. Revert undoes all writes since it. Marks do not nest.
	Mark()
	Revert()
	// Savepoint begins one inside that of the last Mark, and returns a function that undoes all
	// writes since. It is for topology.Context.Try.
	Savepoint() (undo func())
}
