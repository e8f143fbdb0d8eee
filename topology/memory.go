package topology

// MemoryOf is something that the nodes of one task share while the task is open: a value that is
// made once, with [Memory], and fetched by the factories of the nodes. It is immutable.
//
// It is neither undone with a record that fails nor kept over a restart, so nothing that a result
// depends on may be in it: state is in stores. It is for what is true of this opening of the task
// alone, such as a connection, or a mark that tells what this opening has done from what an earlier
// one did.
type MemoryOf[T any] struct{ fresh func() *T }

// Memory describes a value that fresh makes for each task that is opened. fresh runs on the task's
// goroutine.
func Memory[T any](fresh func() *T) *MemoryOf[T] { return &MemoryOf[T]{fresh} }

// In returns the value of the task that t prepares: the same one for all nodes of a subtopology. It
// belongs to the task's goroutine.
func (m *MemoryOf[T]) In(t *Setup) *T {
	if v, ok := t.graph.memories[m].(*T); ok {
		return v
	}
	v := m.fresh()
	if t.graph.memories == nil {
		t.graph.memories = map[any]any{}
	}
	t.graph.memories[m] = v
	return v
}
