package admin

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestTogether: tasks are looked at at the same time, up to a bound, because each look can wait for
// a while.
func TestTogether(t *testing.T) {
	var looked, now, most atomic.Int64
	var all sync.WaitGroup
	all.Add(parallelInspections)
	together(parallelInspections, func(int) { // each waits for all others to have begun
		all.Done()
		all.Wait()
	})
	together(5*parallelInspections, func(int) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		looked.Add(1)
	})
	if looked.Load() != 5*parallelInspections || most.Load() > parallelInspections {
		t.Errorf("looked at %d, %d of them at a time", looked.Load(), most.Load())
	}
}
