//go:build !cgo

package pebblestore

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// boundMemory keeps the memory of the process near its budget. Without cgo Pebble takes blocks and
// memtables from Go's heap, which may grow to twice of what is live before it is collected: a cache
// of 256 MiB costs 512. What is in the budget is no reason to wait with a collection, and it is
// cheap to look at, since it is bytes without pointers. So the collector is told after each
// collection to let the heap grow by what is live beside the budget, as it would if the cache were
// C's.
//
// GOGC of the process is what it grows by, also if somebody changes it meanwhile; where that is off
// it stays off.
func boundMemory(held func() int64) (end func()) {
	pacing.Lock()
	defer pacing.Unlock()
	if len(pacing.held) == 0 {
		base := debug.SetGCPercent(-1)
		debug.SetGCPercent(base)
		pacing.base, pacing.set, pacing.foreign = base, base, false
	}
	id := pacing.next
	pacing.next++
	pacing.held[id] = held
	pacing.arm()
	return func() {
		pacing.Lock()
		defer pacing.Unlock()
		delete(pacing.held, id)
		if len(pacing.held) == 0 {
			pacing.adjust(pacing.base)
		}
	}
}

// garbageMin is what the heap may always grow by, as far as GOGC allows.
const garbageMin = 32 << 20

var pacing = pacer{held: make(map[int]func() int64)}

type pacer struct {
	sync.Mutex
	// held say what the open budgets hold.
	held map[int]func() int64
	next int
	// armed is set while a collection will be noticed.
	armed bool
	// base is GOGC of the process, set what it was made.
	base, set int
	// foreign is set once somebody else has changed GOGC, from paced, while the base was before.
	// Who gives back what he found means the base.
	foreign       bool
	paced, before int
}

// collected is garbage as soon as it is made.
type collected struct{ _ [4]uintptr }

// arm looks at the heap after the next collection, and after each that follows, until the last
// budget has ended. The runtime's own goroutine for finalizers does it, so that there is none to
// end.
func (p *pacer) arm() {
	if p.armed {
		return
	}
	p.armed = true
	runtime.SetFinalizer(new(collected), func(*collected) {
		p.Lock()
		defer p.Unlock()
		p.armed = false
		if len(p.held) == 0 {
			return
		}
		p.arm()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		var held int64
		for _, of := range p.held {
			held += of()
		}
		p.adjust(gcPercent(int64(live[0].Value.Uint64()), held, p.base))
	})
}

// adjust sets GOGC, and notices that somebody else did.
func (p *pacer) adjust(percent int) {
	if was := debug.SetGCPercent(percent); was != p.set {
		if p.foreign && was == p.paced {
			p.base, p.foreign = p.before, false
		} else {
			p.before, p.paced, p.foreign = p.base, p.set, true
			p.base = was
		}
		percent = p.base
		debug.SetGCPercent(percent)
	}
	p.set = percent
}

// gcPercent returns the percentage of a live heap by which it may grow, when so much of it is held
// by budgets.
func gcPercent(live, held int64, base int) int {
	if base < 0 || live <= 0 {
		return base
	}
	garbage := max((live-held)*int64(base)/100, garbageMin)
	return min(base, int(garbage*100/live))
}
