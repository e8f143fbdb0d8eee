package topology

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// agenda says when to look at parked keys. It may say it too early, never too late. It holds a
// bounded number of keys, and of the others when the first of them may be due.
type agenda struct {
	appointments appointments
	// planned has the one appointment of a key that counts.
	planned map[parkedKey]int64
	// beyond is when the first key may be due that was left out, never if none was.
	beyond int64
}

// agendaMax is how many keys stay in an agenda that has become twice as long: some megabytes. It is
// a variable for tests.
var agendaMax = 1 << 16

// never is the time of what does not come.
const never = math.MaxInt64

// appointment says when to look at a key, and how many records of it are known to be ready then.
type appointment struct {
	key     parkedKey
	due     int64 // in milliseconds since the epoch
	waiting int
}

// appointments are a heap, the next one first. Those that were brought forward are passed over.
type appointments []appointment

func (a appointments) Len() int           { return len(a) }
func (a appointments) Less(i, j int) bool { return a[i].due < a[j].due }
func (a appointments) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *appointments) Push(x any)        { *a = append(*a, x.(appointment)) }
func (a *appointments) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

func newAgenda() agenda { return agenda{planned: map[parkedKey]int64{}, beyond: never} }

// plan notes when to look at a key with that head.
func (a *agenda) plan(key parkedKey, h parkedHeadRow) {
	if at, planned := a.planned[key]; planned && at <= h.due {
		return // looked at early enough, and then planned anew
	}
	// Where a record has failed, those behind it are not taken along: they come when it has
	// succeeded.
	waiting := 1
	if h.due == 0 {
		waiting = int(min(h.next-h.first, releasesMax))
	}
	a.planned[key] = h.due
	heap.Push(&a.appointments, appointment{key: key, due: h.due, waiting: waiting})
	if len(a.appointments) >= 2*agendaMax {
		a.cut()
	}
}

// cut leaves out the last ones. What is sorted is a heap.
func (a *agenda) cut() {
	a.appointments = slices.DeleteFunc(a.appointments, func(e appointment) bool { return !a.counts(e) })
	slices.SortFunc(a.appointments, func(e, f appointment) int { return cmp.Compare(e.due, f.due) })
	if len(a.appointments) <= agendaMax {
		return
	}
	a.beyond = min(a.beyond, a.appointments[agendaMax].due)
	for _, e := range a.appointments[agendaMax:] {
		delete(a.planned, e.key)
	}
	a.appointments = a.appointments[:agendaMax]
}

// counts is false for an appointment that was brought forward.
func (a *agenda) counts(e appointment) bool {
	at, planned := a.planned[e.key]
	return planned && at == e.due
}

// take returns the next appointment if it is due.
func (a *agenda) take(now int64) (e appointment, ok bool) {
	for len(a.appointments) > 0 && a.appointments[0].due <= now {
		e = heap.Pop(&a.appointments).(appointment)
		if a.counts(e) {
			delete(a.planned, e.key)
			return e, true
		}
	}
	return appointment{}, false
}

// next is when there is something to take, or to look for, never if nothing waits.
func (a *agenda) next() int64 {
	if len(a.appointments) == 0 {
		return a.beyond
	}
	return min(a.appointments[0].due, a.beyond)
}

// lacks reports whether a key that was left out may be the next one now.
func (a *agenda) lacks(now int64) bool { return a.beyond <= now && a.beyond == a.next() }

// parkedFilter says of a key whether it may be parked: never no of one that is. It has a fixed
// size; the more keys are parked, the more often it says yes of others.
type parkedFilter struct {
	// bits has one for each of so many hashes; nil while nothing was parked.
	bits []uint64
	// all says yes of every key.
	all bool
}

// filterBits takes 128 KiB. With 100,000 keys it says yes of one other key in ten.
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
