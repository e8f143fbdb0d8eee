package pebblestore

import (
	"runtime"
	"time"
)

// flushTurnMax is how long a flush waits for its turn at most: a disk that stands still is one
// database's own.
const flushTurnMax = 2 * time.Second

// flushTurns is how many databases of a process flush at the same time when none of them is in a
// hurry.
//
// Similar tasks reach FlushBytes at the same moment. If all of them flush at once, all processors
// are busy, and each step of a round waits for one. With four tasks at 10,000 records/s on two
// processors the 99th percentile of the latency of a ledger was 44 to 110 ms. It is 25 to 35 ms
// when they flush one after the other. Smaller flushes one at a time, a pause between two, or fewer
// commits did not change that.
func flushTurns() int { return max(runtime.GOMAXPROCS(0)/2, 1) }

// hurried reports whether the flush cannot wait for others: enough was applied meanwhile, the
// process needs the memory, or a call may wait for this goroutine to check the levels.
func (f *flusher) hurried() bool {
	return f.backlog() >= f.bytes+f.bytes/2 || f.shared.pressed() || f.crowded.Load()
}

// takeTurn waits until the database may flush in the background, and returns how the turn is given
// back. It returns false when the goroutine should end.
func (d *database) takeTurn() (giveBack func(), ok bool) {
	f := &d.flusher
	giveBack = func() {}
	if f.shared == nil {
		return giveBack, true
	}
	longest := time.NewTimer(flushTurnMax)
	defer longest.Stop()
	for !f.hurried() {
		select {
		case f.shared.turns <- struct{}{}:
			return func() { <-f.shared.turns }, true
		case <-f.work: // there is more, or less memory, or a load
		case <-d.fault.replaced:
			d.renewIterators()
		case <-longest.C:
			return giveBack, true
		case <-d.fault.failed:
			return nil, false
		case <-f.stop:
			return nil, false
		}
	}
	return giveBack, true
}
