//go:build !cgo

package pebblestore

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

const (
	// measuredMemory is the peak: blocks of the cache are in Go's heap, which gives them back.
	measuredMemory = "VmHWM:"
	// allocatorBeside is what this allocator takes beside a full budget, with the test's own
	// memory: a collection is put off for that long.
	allocatorBeside = 160 << 20
)

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, held int64
		base, want int
	}{
		{10 * mib, 256 * mib, 100, 100}, // small heaps may double
		{280 * mib, 256 * mib, 100, 11}, // the least
		{500 * mib, 256 * mib, 100, 48}, // what is beside the budget
		{500 * mib, 256 * mib, 50, 24},
		{4096 * mib, 0, 100, 100},
		{300 * mib, 256 * mib, -1, -1},
		{0, 256 * mib, 100, 100},
	} {
		if got := gcPercent(c.live, c.held, c.base); got != c.want {
			t.Errorf("live %d, held %d, GOGC %d: got %d, want %d", c.live, c.held, c.base, got, c.want)
		}
	}
}

// TestGCPercentIsGivenBack: GOGC is what it was once there is no budget, also if somebody has
// changed it.
func TestGCPercentIsGivenBack(t *testing.T) {
	was := debug.SetGCPercent(100)
	defer debug.SetGCPercent(was)
	collectUntil := func(what string, ok func(*pacer) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
			runtime.GC()
			pacing.Lock()
			done := ok(&pacing)
			pacing.Unlock()
			if done {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: it never came", what)
			}
		}
	}
	live := make([]byte, 400<<20)
	a, b := NewShared(200<<20, 100), NewShared(100<<20, 100)
	for range 3 {
		runtime.GC()
	}
	collectUntil("a look at a heap with nothing in the budget", func(p *pacer) bool { return p.set == 100 && p.base == 100 && p.armed })
	release := a.Reserve(200 << 20)
	defer release()
	collectUntil("a percentage for a heap in the budget", func(p *pacer) bool { return p.set < p.base && p.base == 100 })
	found := debug.SetGCPercent(-1)
	collectUntil("that it was switched off", func(p *pacer) bool { return p.base == -1 })
	debug.SetGCPercent(found)
	collectUntil("that what was found was given back", func(p *pacer) bool { return p.base == 100 })
	a.Close()
	debug.SetGCPercent(150)
	collectUntil("the percentage that somebody has set", func(p *pacer) bool { return p.base == 150 })
	b.Close()
	if got := debug.SetGCPercent(100); got != 150 {
		t.Errorf("GOGC is %d in the end", got)
	}
	runtime.KeepAlive(live)
}
