package cluster

import (
	"flag"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// TestCells: every cell runs once, in order, and never more than the bound at a time, whatever the
// package has set for its tests.
func TestCells(t *testing.T) {
	const inParallel = 3
	said := flag.Lookup("test.parallel").Value.String()
	InParallel(inParallel + 2)
	t.Cleanup(func() { InParallel(0); _ = flag.Set("test.parallel", said) })
	var mu sync.Mutex
	var started []int
	running, most := 0, 0
	full := make(chan struct{}) // closed once as many run as may
	var cells []int
	for n := range 20 {
		cells = append(cells, n)
	}
	Cells(t, inParallel, cells, strconv.Itoa, func(_ *testing.T, n int) {
		mu.Lock()
		started = append(started, n)
		running++
		if most = max(most, running); most == inParallel && n < inParallel {
			close(full)
		}
		mu.Unlock()
		<-full
		mu.Lock()
		running--
		mu.Unlock()
	})
	slices.Sort(started[:inParallel]) // these were handed out in order and may have begun in any
	if !slices.Equal(started[:inParallel], cells[:inParallel]) || len(started) != len(cells) || most != inParallel {
		t.Errorf("the cells %v have run, at most %d at once; want %d of them, first the first, %d at once",
			started, most, len(cells), inParallel)
	}
}
