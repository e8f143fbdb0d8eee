package pgsink

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// measureEvery is how often the gauges of all partitions are measured. Without that, the gauges of
// a partition would stand still as long as one of its batches is at work.
const measureEvery = 5 * time.Second

// measure keeps the gauges up to date until the session ends.
func (e *session) measure() {
	for work.Wait(e.ctx, nil, e.sink.measureEvery) {
		ends := e.endsOfPaused()
		e.mu.Lock() // a worker that is released has no gauges from here on
		for p, w := range e.workers {
			w.mu.Lock()
			if end, ok := ends[p]; ok && w.mu.paused {
				w.mu.stable = end
			}
			w.show()
			w.mu.Unlock()
		}
		e.mu.Unlock()
	}
}

// endsOfPaused returns the last stable offsets of the topics that have partitions which are paused.
// A partition that is paused is not fetched, and no other answer of a broker has its end.
func (e *session) endsOfPaused() map[partition]int64 {
	topics := map[string]bool{}
	e.mu.Lock()
	for p, w := range e.workers {
		w.mu.Lock()
		if w.mu.paused {
			topics[p.topic] = true
		}
		w.mu.Unlock()
	}
	e.mu.Unlock()
	ends := map[partition]int64{}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		offsets, err := listed(e.ctx, topic, kadm.NewClient(e.client).ListCommittedOffsets)
		if err != nil {
			if e.ctx.Err() == nil {
				e.sink.config.Logger.Warn("the lag of paused partitions cannot be measured", "topic", topic, "error", err)
			}
			continue
		}
		for n, end := range offsets {
			ends[partition{topic, n}] = end
		}
	}
	return ends
}

// isAtWork says which records the worker applies from here on.
func (w *worker) isAtWork(b batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.oldest = time.Time{}
	if len(b.records) > 0 {
		w.mu.oldest = b.records[0].Timestamp
	}
	w.show()
}

// show sets the gauges of the partition. The caller has the lock.
func (w *worker) show() {
	age := 0.0
	if !w.mu.oldest.IsZero() {
		age = max(0, time.Since(w.mu.oldest).Seconds())
	}
	m := &w.sink.metrics
	m.of(m.pending, w).Set(age)
	m.of(m.lag, w).Set(float64(max(0, w.mu.stable-w.mu.passed)))
}
