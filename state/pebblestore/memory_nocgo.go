//go:build !cgo

package pebblestore

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// boundMemory keeps the memory of the process near its budget. Without cgo Pebble takes blocks and memtables from Go's heap, which may grow to
// twice of what is live before it is collected: a cache of 256 MiB costs 512. What is in the budget is no reason to wait with a collection, and
// it is cheap to look at, since it is bytes without pointers. So the collector is told after each collection to let the heap grow by what is
// live beside the budget, as it would if the cache were C's.
//
// GOGC of the process is what it grows by, also if somebody changes it meanwhile; with GOGC=off nothing is done.
func boundMemory(budget int64) (end func()) {
	pacing.Lock()
	defer pacing.Unlock()
	pacing.budgets += budget
	if pacing.open++; pacing.open == 1 {
		pacing.base = debug.SetGCPercent(-1)
		pacing.set = pacing.base
		debug.SetGCPercent(pacing.base)
		afterCollection()
	}
	return func() {
		pacing.Lock()
		defer pacing.Unlock()
		pacing.budgets -= budget
		if pacing.open--; pacing.open == 0 {
			pacing.adjust(pacing.base)
		}
	}
}

// garbageMin is what the heap may always grow by, as far as GOGC allows.
const garbageMin = 32 << 20

var pacing pacer

type pacer struct {
	sync.Mutex
	// open counts those that have a part in budgets.
	open    int
	budgets int64
	// base is GOGC of the process, set what it was made.
	base, set int
}

// collected is garbage as soon as it is made.
type collected struct{ _ [4]uintptr }

// afterCollection looks at the heap after the next collection, and after each that follows, until the last budget has ended. The runtime's own
// goroutine for finalizers does it, so that there is none to end.
func afterCollection() {
	runtime.SetFinalizer(new(collected), func(*collected) {
		pacing.Lock()
		defer pacing.Unlock()
		if pacing.open == 0 {
			return
		}
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		pacing.adjust(gcPercent(int64(live[0].Value.Uint64()), pacing.budgets, pacing.base))
		afterCollection()
	})
}

// adjust sets GOGC, and notices that somebody else did.
func (p *pacer) adjust(percent int) {
	if was := debug.SetGCPercent(percent); was != p.set {
		p.base = was
		percent = was
		debug.SetGCPercent(was)
	}
	p.set = percent
}

// gcPercent returns the percentage of a live heap by which it may grow, with budgets in it of which nothing may be wasted.
func gcPercent(live, budgets int64, base int) int {
	if base < 0 || live <= 0 {
		return base
	}
	garbage := max((live-budgets)*int64(base)/100, garbageMin)
	return min(base, int(garbage*100/live))
}
