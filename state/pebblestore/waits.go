package pebblestore

import (
	"sync"
	"time"
)

// waits counts how often and how long somebody waited for room. There is one who waits at a time. A
// wait counts while it lasts: that of a disk that has gone away lasts for as long as it is away.
type waits struct {
	mu    sync.Mutex
	count int64
	total time.Duration
	since time.Time // zero while nobody waits
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
