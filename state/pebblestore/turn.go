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
// Tasks that are alike come to FlushBytes at the same moment. With all their flushes at once every
// processor is taken for as long as they last, and each step of a round waits for one: with four
// tasks at 10,000 records/s on two processors the 99th percentile of the latency of a ledger was 44
// to 110 ms and is 25 to 35 with one after the other. More of them one at a time, with a rest
// between two, or fewer commits made no difference to that.
func flushTurns() int { return max(runtime.GOMAXPROCS(0)/2, 1) }

// hurried reports whether the flush cannot wait for others: enough has come meanwhile, the process
// needs the memory, or somebody may wait for this goroutine to look at the levels.
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
			d.renewSeekers()
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
