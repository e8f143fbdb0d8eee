package pebblestore

import (
	"sync"
	"time"
)

// waits counts the number and the time of waits for room. One call waits at a time. A wait counts
// while it lasts: if a disk is gone, the time grows for as long as it is gone.
type waits struct {
	mu    sync.Mutex
	count int64
	total time.Duration
	since time.Time // zero while no call waits
}

func (w *waits) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	w.since = time.Now()
}

func (w *waits) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total += time.Since(w.since)
	w.since = time.Time{}
}

// read returns how many waits have begun, and how long they took so far. Neither ever goes back.
func (w *waits) read() (count int64, total time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return w.count, w.total
	}
	return w.count, w.total + time.Since(w.since)
}
