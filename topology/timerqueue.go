package topology

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// timerQueue holds when to look at parked keys. A time may be too early, never too late. It holds a
// bounded number of keys. For the keys that it left out it holds the earliest time.
type timerQueue struct {
	parkedTimers parkedTimers
	// planned has the one valid timer of a key.
	planned map[parkedKey]int64
	// beyond is when the first of the keys that were left out may be due, never if there is none.
	beyond int64
}

// timerQueueMax is how many keys stay when a queue of twice as many is cut: some megabytes. It is a
// variable for tests.
var timerQueueMax = 1 << 16

// never is later than every time.
const never = math.MaxInt64

// parkedTimer says when to look at a key, and how many of its records are known to be ready then.
type parkedTimer struct {
	key     parkedKey
	due     int64 // in milliseconds since the epoch
	waiting int
}

// parkedTimers are a heap, the earliest first. Timers that were replaced by an earlier one are
// skipped.
type parkedTimers []parkedTimer

func (a parkedTimers) Len() int           { return len(a) }
func (a parkedTimers) Less(i, j int) bool { return a[i].due < a[j].due }
func (a parkedTimers) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *parkedTimers) Push(x any)        { *a = append(*a, x.(parkedTimer)) }
func (a *parkedTimers) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

func newTimerQueue() timerQueue { return timerQueue{planned: map[parkedKey]int64{}, beyond: never} }

// plan notes when to look at a key with that head.
func (a *timerQueue) plan(key parkedKey, h parkedHeadRow) {
	if at, planned := a.planned[key]; planned && at <= h.due {
		return // the earlier look plans the next one
	}
	// Behind a record that has failed, the others wait until it has succeeded.
	waiting := 1
	if h.due == 0 {
		waiting = int(min(h.next-h.first, releasesMax))
	}
	a.planned[key] = h.due
	heap.Push(&a.parkedTimers, parkedTimer{key: key, due: h.due, waiting: waiting})
	if len(a.parkedTimers) >= 2*timerQueueMax {
		a.cut()
	}
}

// cut removes the latest timers. A sorted slice is a heap.
func (a *timerQueue) cut() {
	a.parkedTimers = slices.DeleteFunc(a.parkedTimers, func(e parkedTimer) bool { return !a.counts(e) })
	slices.SortFunc(a.parkedTimers, func(e, f parkedTimer) int { return cmp.Compare(e.due, f.due) })
	if len(a.parkedTimers) <= timerQueueMax {
		return
	}
	a.beyond = min(a.beyond, a.parkedTimers[timerQueueMax].due)
	for _, e := range a.parkedTimers[timerQueueMax:] {
		delete(a.planned, e.key)
	}
	a.parkedTimers = a.parkedTimers[:timerQueueMax]
}

// counts is false for a timer that was replaced by an earlier one.
func (a *timerQueue) counts(e parkedTimer) bool {
	at, planned := a.planned[e.key]
	return planned && at == e.due
}

// take returns the earliest timer if it is due.
func (a *timerQueue) take(now int64) (e parkedTimer, ok bool) {
	for len(a.parkedTimers) > 0 && a.parkedTimers[0].due <= now {
		e = heap.Pop(&a.parkedTimers).(parkedTimer)
		if a.counts(e) {
			delete(a.planned, e.key)
			return e, true
		}
	}
	return parkedTimer{}, false
}

// next returns the time of the next take or search, never if no record waits.
func (a *timerQueue) next() int64 {
	if len(a.parkedTimers) == 0 {
		return a.beyond
	}
	return min(a.parkedTimers[0].due, a.beyond)
}

// lacks reports whether a key that was left out may be due before all others.
func (a *timerQueue) lacks(now int64) bool { return a.beyond <= now && a.beyond == a.next() }

// parkedFilter is a Bloom filter of the parked keys with a fixed size. It finds every parked key.
// The more keys are parked, the more other keys it reports too.
type parkedFilter struct {
	// bits has one bit for each hash; nil while no key was parked.
	bits []uint64
	// all reports every key as parked.
	all bool
}

// filterBits takes 128 KiB. With 100,000 keys it reports one other key in ten.
const filterBits = 1 << 20

func (f *parkedFilter) add(key parkedKey) {
	if f.bits == nil {
		f.bits = make([]uint64, filterBits/64)
	}
	i := key.bit()
	f.bits[i/64] |= 1 << (i % 64)
}

func (f *parkedFilter) may(key parkedKey) bool {
	i := key.bit()
	return f.all || f.bits != nil && f.bits[i/64]&(1<<(i%64)) != 0
}
