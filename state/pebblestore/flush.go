package pebblestore

import (
	"sync/atomic"
	"time"
)

// backlogFactor times FlushBytes may wait for the disk before Apply waits too.
const backlogFactor = 3

// sublevelsMax is the number of overlapping tables in L0 at which Apply waits for a compaction:
// each of them slows down every read that reaches Pebble.
const sublevelsMax = 32

// levelsPoll is how long a wait for a compaction lasts at most before it looks whether there is
// one.
const levelsPoll = 50 * time.Millisecond

// flusher bounds the data that is only in memory. Each database has one goroutine for it. It starts
// a flush when enough was applied or enough time has passed, and lets Apply continue when the flush
// is done.
type flusher struct {
	// bytes is how much is flushed together, backlogMax how much may wait for that.
	bytes, backlogMax int64
	interval          time.Duration

	// shared is the budget, nil for none.
	shared *Shared
	// crowded is set while L0 has too many tables to take more in, or may have.
	crowded atomic.Bool
	// waits counts the calls that wait for room.
	waits waits

	// written and flushed count bytes of batches since Open; the difference is in memory only.
	// Counting up instead of taking a backlog down lets two flushes overlap.
	written, flushed atomic.Int64

	// work has a token when there is something to look at, room when a flush is done. Both hold at
	// most one: the receiver looks at the counters, not at the number of tokens.
	work, room chan struct{}
	// stop ends the goroutine, stopped says that it has.
	stop, stopped chan struct{}
}

func newFlusher(o Options) flusher {
	if o.Shared != nil { // the wait for a turn is in it
		o.FlushInterval = max(o.FlushInterval-flushTurnMax, o.FlushInterval/2)
	}
	return flusher{
		bytes: o.flushAt, backlogMax: backlogFactor * o.FlushBytes, interval: o.FlushInterval, shared: o.Shared,
		work: make(chan struct{}, 1), room: make(chan struct{}, 1),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// backlog returns the bytes that are in memory only.
func (f *flusher) backlog() int64 { return f.written.Load() - f.flushed.Load() }

// wrote counts a batch. It wakes the goroutine for the first one after a flush, whose time counts,
// and for each one above the limit.
func (f *flusher) wrote(bytes int64) {
	before := f.written.Add(bytes) - bytes
	f.shared.add(bytes)
	if before == f.flushed.Load() || f.due(f.backlog()) {
		token(f.work)
	}
}

// due reports whether that much has to be flushed without waiting for the interval: it is enough by
// itself, or the process needs the memory.
func (f *flusher) due(backlog int64) bool {
	return backlog >= f.bytes || f.shared.pressed() && backlog >= f.shared.share()/2
}

// roomFor reports whether more may be applied on top of that much.
func (f *flusher) roomFor(backlog int64) bool {
	return !f.crowded.Load() && backlog < f.backlogMax && !f.shared.full(backlog)
}

// reached records that everything up to target is on the disk.
func (f *flusher) reached(target int64) {
	for {
		old := f.flushed.Load()
		if old >= target {
			return
		}
		if f.flushed.CompareAndSwap(old, target) {
			f.shared.add(old - target)
			token(f.room)
			return
		}
	}
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// runFlusher is the goroutine. It ends with Close and with the first fault.
func (d *database) runFlusher() {
	f := &d.flusher
	defer close(f.stopped)
	timer := time.NewTimer(f.interval)
	timer.Stop()
	waiting := false
	for {
		due := false
		select {
		case <-f.stop:
			return
		case <-d.fault.failed:
			return
		case <-d.fault.replaced:
			d.renewIterators()
			continue
		case <-timer.C:
			due = true
		case <-f.work:
		}
		if f.crowded.Load() && !d.waitForLevels() {
			return
		}
		switch backlog := f.backlog(); {
		case backlog == 0: // a Flush came first
			timer.Stop()
			waiting = false
		case due || f.due(backlog):
			timer.Stop()
			waiting = false
			if !d.flushInBackground() {
				return
			}
			if f.backlog() > 0 {
				token(f.work)
			}
		case !waiting:
			timer.Reset(f.interval)
			waiting = true
		}
	}
}

// flushInBackground flushes once, and waits until L0 has room for more. It returns false when the
// goroutine should end.
func (d *database) flushInBackground() bool {
	target, ok := d.flushInTurn()
	if !ok {
		return false
	}
	// Set before waiting calls learn of the free memory: L0 may be the next limit.
	d.flusher.crowded.Store(true)
	d.flusher.reached(target)
	return d.waitForLevels()
}

// flushInTurn flushes when it is the database's turn, and returns how far. It returns false when
// the goroutine should end.
func (d *database) flushInTurn() (target int64, ok bool) {
	giveBack, ok := d.takeTurn()
	if !ok {
		return 0, false
	}
	defer giveBack()
	target = d.flusher.written.Load()
	if d.flusher.backlog() == 0 { // a Flush came first
		return target, true
	}
	done, err := d.startFlush("flush")
	if err != nil {
		return 0, false
	}
	select {
	case <-done:
		return target, true
	case <-d.fault.failed:
		return 0, false
	case <-d.flusher.stop:
		return 0, false
	}
}

// waitForLevels waits until L0 has room for more, and says so. It returns false when the goroutine
// should end.
func (d *database) waitForLevels() bool {
	again := time.NewTimer(levelsPoll)
	defer again.Stop()
	for d.deep() {
		again.Reset(levelsPoll)
		select {
		case <-d.fault.compacted:
		case <-again.C: // Pebble tells of the end of a compaction before it counts it as ended
		case <-d.fault.failed:
			return false
		case <-d.flusher.stop:
			return false
		}
	}
	d.flusher.crowded.Store(false)
	token(d.flusher.room)
	return true
}

// deep reports whether L0 has too many overlapping tables and a compaction will reduce them. Pebble
// counts the tables that overlap at one key. Tables of loads can form a long chain in which only
// neighbours overlap. No compaction starts for that, so waiting for one would never end.
func (d *database) deep() bool {
	d.life.RLock()
	defer d.life.RUnlock()
	if d.life.closed {
		return false
	}
	m := d.db.Metrics()
	return m.Levels[0].Sublevels > sublevelsMax && m.Compact.NumInProgress > 0
}

// waitForRoom waits while too much is in memory only, or L0 is too deep. The caller holds applying,
// so that there is one waiter.
func (d *database) waitForRoom(op string) error {
	f := &d.flusher
	if f.roomFor(f.backlog()) {
		return nil
	}
	f.waits.begin()
	f.shared.hold(f)
	defer func() {
		f.shared.let(f)
		f.waits.end()
	}()
	for !f.roomFor(f.backlog()) {
		token(f.work) // the share may have become smaller since the last check
		select {
		case <-f.room:
		case <-d.fault.failed:
			return d.fault.check(op)
		case <-f.stop:
			return errClosed(op, d.path)
		}
	}
	return nil
}

// startFlush hands what was written to Pebble's flush. The channel is closed when it is on the
// disk.
//
// It holds down, so that no batch is between the memtable and its readers when the memtable is
// sealed. Pebble makes a batch visible after it has written it to the memtable, and a flush keeps
// only the newest version of a key. If such a flush ended first, the new version would not be
// visible yet, and the one before would be gone. Readers would see an older one, or none.
func (d *database) startFlush(op string) (<-chan struct{}, error) {
	d.committed.down.Lock()
	defer d.committed.down.Unlock()
	if err := d.drainLocked(op); err != nil {
		return nil, err
	}
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usableLocked(op); err != nil {
		return nil, err
	}
	done, err := d.db.AsyncFlush()
	if err != nil {
		return nil, d.fault.newError(op, err)
	}
	return done, nil
}

// flush returns when everything written before the call is on the disk.
func (d *database) flush(op string) error {
	target := d.flusher.written.Load()
	if d.flusher.flushed.Load() >= target {
		return d.usable(op)
	}
	done, err := d.startFlush(op)
	if err != nil {
		return err
	}
	select {
	case <-done:
		d.flusher.reached(target)
		return d.fault.check(op)
	case <-d.fault.failed:
		return d.fault.check(op)
	}
}

// Flush implements state.Database.
func (d *database) Flush() error { return d.flush("flush") }
