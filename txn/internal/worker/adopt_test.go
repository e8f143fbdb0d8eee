package worker

import (
	"context"
	"testing"

	"github.com/onceward/onceward/txn/internal/task"
)

// An adoption under a context that has ended must be refused or succeed, never both: the task would
// have two owners.
func TestAdoptUnderEndedContext(t *testing.T) {
	w := &Worker{requests: make(chan request), done: make(chan struct{})}
	took := 0
	end := make(chan struct{})
	go func() {
		defer close(end)
		for r := range w.requests {
			took++
			r.done <- nil
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := 0
	const n = 10_000
	for i := range n {
		if i == n/2 {
			cancel()
		}
		if w.Adopt(ctx, &task.Task{}) != nil {
			failed++
		}
	}
	close(w.requests)
	<-end
	if took+failed != n {
		t.Errorf("the worker took %d tasks and Adopt refused %d of %d", took, failed, n)
	}
}
