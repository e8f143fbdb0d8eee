package opening

import (
	"sync"

	"github.com/onceward/onceward/topology/graph"
)

// openings lets the goroutines that open one task run one after the other. A task can be given up
// and assigned back within moments, while the previous goroutine still ends: it closes a database,
// removes a damaged one, or puts a rebuilt one into its place. All of that is about paths that the
// next goroutine would already use.
type openings struct {
	mu   sync.Mutex
	last map[graph.TaskID]chan struct{}
}

// open reports whether a goroutine that opens the task has not ended.
func (o *openings) open(id graph.TaskID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.last[id]
	if last == nil {
		return false
	}
	select {
	case <-last:
		return false
	default:
		return true
	}
}

// enter returns what is to be waited for before the task is opened, and what is to be called when
// that has ended.
func (o *openings) enter(id graph.TaskID) (before <-chan struct{}, leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = map[graph.TaskID]chan struct{}{}
	}
	last := o.last[id]
	if last == nil {
		last = make(chan struct{})
		close(last)
	}
	here := make(chan struct{})
	o.last[id] = here
	return last, func() { close(here) }
}
