package state

import "slices"

// times are the stream times of a task's stores, by the index of the store, with the savepoint of
// one record. Most stores have none, and most records move none of the others: nothing is copied
// for them.
type times struct {
	now []int64
	// marked is what now was at the last mark, if moved; it has the same length.
	marked []int64
	moved  bool
	// savepoint says that there is a mark to go back to.
	savepoint bool
}

// newTimes returns the times of committed positions.
func newTimes(stores []string, p Positions) times {
	t := times{now: make([]int64, len(stores)), marked: make([]int64, len(stores))}
	for i, name := range stores {
		c, _ := p.Changelog(name)
		t.now[i] = c.StreamTime
	}
	return t
}

func (t *times) advance(store uint32, ms int64) {
	if ms <= t.now[store] {
		return
	}
	if t.savepoint && !t.moved {
		copy(t.marked, t.now)
		t.moved = true
	}
	t.now[store] = ms
}

func (t *times) mark() { t.savepoint, t.moved = true, false }

func (t *times) revert() {
	if t.moved {
		copy(t.now, t.marked)
		t.moved = false
	}
}

// savepointNow returns what undoTo goes back to.
func (t *times) savepointNow() []int64 { return slices.Clone(t.now) }

// undoTo goes back to the times of a savepoint since the last mark. That one stays.
func (t *times) undoTo(then []int64) { copy(t.now, then) }

// freeze returns the times as the round leaves them, and begins a round without a mark.
func (t *times) freeze() []int64 {
	t.savepoint, t.moved = false, false
	return slices.Clone(t.now)
}

// reset goes back to the times that a frozen layer left.
func (t *times) reset(to []int64) {
	copy(t.now, to)
	t.savepoint, t.moved = false, false
}
