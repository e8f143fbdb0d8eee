package pebblestore

import (
	"sync/atomic"
	"time"
)

// backlogFactor times FlushBytes may wait for the disk before Apply waits too.
const backlogFactor = 3

// sublevelsMax is the number of overlapping tables in L0 above which no more is taken in until a compaction
// has caught up: each of them costs every read.
const sublevelsMax = 20

// flusher bounds what is in memory only. It is one goroutine for each database, which starts a flush when
// enough was applied or enough time has passed, and which lets Apply go on when the flush is done.
type flusher struct {
	bytes    int64
	interval time.Duration

	// written and flushed count bytes of batches since Open; the difference is in memory only. Counting up
	// instead of taking a backlog down lets two flushes overlap.
	written, flushed atomic.Int64

	// work has a token when there is something to look at, room when a flush is done. Both hold at most one:
	// the receiver looks at the counters, not at the number of tokens.
	work, room chan struct{}
	// stop ends the goroutine, stopped says that it has.
	stop, stopped chan struct{}
}

func newFlusher(o Options) flusher {
	return flusher{
		bytes: o.FlushBytes, interval: o.FlushInterval,
		work: make(chan struct{}, 1), room: make(chan struct{}, 1),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// backlog returns the bytes that are in memory only.
func (f *flusher) backlog() int64 { return f.written.Load() - f.flushed.Load() }

// wrote counts a batch. It wakes the goroutine for the first one after a flush, whose time counts, and for
// each one above the limit.
func (f *flusher) wrote(bytes int64) {
	if before := f.written.Add(bytes) - bytes; before == f.flushed.Load() || f.backlog() >= f.bytes {
		token(f.work)
	}
}

// reached records that everything up to target is on the disk.
func (f *flusher) reached(target int64) {
	for {
		old := f.flushed.Load()
		if old >= target || f.flushed.CompareAndSwap(old, target) {
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
		case <-timer.C:
			due = true
		case <-f.work:
		}
		switch backlog := f.backlog(); {
		case backlog == 0: // a Flush came first
			timer.Stop()
			waiting = false
		case due || backlog >= f.bytes:
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

// flushInBackground flushes once, and waits until L0 has room for more. It returns false when the goroutine
// should end.
func (d *database) flushInBackground() bool {
	target := d.flusher.written.Load()
	done, err := d.startFlush("flush")
	if err != nil {
		return false
	}
	select {
	case <-done:
	case <-d.fault.failed:
		return false
	case <-d.flusher.stop:
		return false
	}
	for d.sublevels() > sublevelsMax {
		select {
		case <-d.fault.compacted:
		case <-d.fault.failed:
			return false
		case <-d.flusher.stop:
			return false
		}
	}
	d.flusher.reached(target)
	return true
}

// sublevels returns the number of overlapping tables in L0.
func (d *database) sublevels() int {
	d.life.RLock()
	defer d.life.RUnlock()
	if d.life.closed {
		return 0
	}
	return int(d.db.Metrics().Levels[0].Sublevels)
}

// waitForRoom waits while too much is in memory only. The caller holds applying, so that there is one waiter.
func (d *database) waitForRoom(op string) error {
	for d.flusher.backlog() >= backlogFactor*d.flusher.bytes {
		select {
		case <-d.flusher.room:
		case <-d.fault.failed:
			return d.fault.check(op)
		case <-d.flusher.stop:
			return errClosed(op, d.path)
		}
	}
	return nil
}

// startFlush hands what was written to Pebble's flush. The channel is closed when it is on the disk.
func (d *database) startFlush(op string) (<-chan struct{}, error) {
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
