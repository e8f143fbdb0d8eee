package worker

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/health"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// Gauges are what a worker holds now, as the compute goroutine last noted it (at most a second ago
// while it is not stuck).
type Gauges struct {
	// OverlayBytes is the memory of the open round's state writes, RoundBytes that of its input and
	// output.
	OverlayBytes, RoundBytes int64
	// CommitTime is the smoothed time from seal to applied, 0 before the first commit.
	CommitTime time.Duration
	// TransactionSince is when the older open transaction began, zero without one.
	TransactionSince time.Time
}

// observed is what others may read of the compute goroutine while it runs.
type observed struct {
	loop                               health.Loop
	overlayBytes, roundBytes, commitNs atomic.Int64

	// The rest belongs to the compute goroutine. processed counts the records of a slice.
	processed int
	notedAt   time.Time
}

// noteEvery is how often the gauges are brought up to date, at most.
const noteEvery = 100 * time.Millisecond

// Gauges may be called from any goroutine.
func (w *Worker) Gauges() Gauges {
	o := &w.observed
	g := Gauges{
		OverlayBytes: o.overlayBytes.Load(), RoundBytes: o.roundBytes.Load(), CommitTime: time.Duration(o.commitNs.Load()),
	}
	for _, t := range w.committers {
		if ns := t.observed.openSince.Load(); ns != 0 {
			if since := time.Unix(0, ns); g.TransactionSince.IsZero() || since.Before(g.TransactionSince) {
				g.TransactionSince = since
			}
		}
	}
	return g
}

// Loops returns the goroutines whose progress tells whether the worker is alive: the compute
// goroutine, and the applies of its committers. Everything else in the committers waits for
// brokers, and is no sign for this process.
func (w *Worker) Loops() []*health.Loop {
	return []*health.Loop{&w.observed.loop, &w.committers[0].observed.apply, &w.committers[1].observed.apply}
}

func (w *Worker) nameLoops() {
	w.observed.loop.Name = fmt.Sprintf("worker %d", w.cfg.ID)
	for i, t := range w.committers {
		t.observed.apply.Name = fmt.Sprintf("worker %d, apply of committer %d", w.cfg.ID, i)
	}
}

// slice is one turn of the loop: it computes, and notes how that went.
func (w *Worker) slice(now time.Time) bool {
	w.observed.loop.Began(now)
	w.note(now)
	worked := w.compute(now)
	if n := w.observed.processed; n > 0 {
		w.observed.processed = 0
		w.cfg.Metrics.Slice(time.Since(now), n)
	}
	return worked
}

// note brings the gauges up to date now and then.
func (w *Worker) note(now time.Time) {
	o := &w.observed
	if now.Sub(o.notedAt) < noteEvery {
		return
	}
	o.notedAt = now
	w.notices.flush(now)
	var overlay, held int64
	if w.open != nil {
		overlay, held = w.open.state, w.open.held+w.open.outputs.bytes()
	}
	o.overlayBytes.Store(overlay)
	o.roundBytes.Store(held)
	o.commitNs.Store(int64(w.clock.smoothed))
	oldest := make(map[graph.TaskID][]int64, len(w.tasks))
	retrying := map[graph.TaskID]bool{}
	for _, t := range w.tasks {
		oldest[t.ID], retrying[t.ID] = w.oldest(t), !t.WakeAt().IsZero()
	}
	w.status.Lock()
	defer w.status.Unlock()
	for id, at := range oldest {
		if s, ok := w.status.tasks[id]; ok {
			s.Oldest = at
			if !retrying[id] {
				s.Retry = nil
			}
			w.status.tasks[id] = s
		}
	}
}

// oldest returns per input the timestamp of the oldest record that is fetched and not committed.
func (w *Worker) oldest(t *task.Task) []int64 {
	out := t.Oldest()
	// At most two rounds are in flight; the lower number is the older one.
	var rounds []*round
	for _, r := range w.rounds {
		rounds = append(rounds, r)
	}
	if len(rounds) == 2 && rounds[0].n < rounds[1].n {
		rounds[0], rounds[1] = rounds[1], rounds[0]
	}
	for _, r := range rounds {
		c := r.byTask[t]
		if c == nil || r.dropped {
			continue
		}
		for i, at := range c.Oldest() {
			if at != state.NoTime {
				out[i] = at
			}
		}
	}
	return out
}

// countAnswer counts what a committer reports, and remembers the first failure of a round as the
// cause of its abort.
func (w *Worker) countAnswer(a answer) {
	if a.unanswered {
		return
	}
	w.cfg.Metrics.Answered(a.Kind)
	switch a.Kind {
	case protocol.FlushFailed, protocol.OffsetsRefused, protocol.ProducerLost, protocol.CommitUnknown:
		if r := w.rounds[a.Round]; r != nil {
			r.failure = a.Kind
		}
	default:
	}
}

// countAborted counts a round whose records are put back. A round without a failure of its own goes
// because of the one below it, or because a task is given up.
func (w *Worker) countAborted(r *round) {
	cause := metrics.CauseGivenUp
	switch {
	case r.failure != 0:
		cause = metrics.CauseOf(r.failure)
	case w.state.Front == protocol.Aborting, w.state.Front == protocol.Settling, w.state.Front == protocol.Doubting:
		cause = metrics.CauseBase
	}
	records, _ := r.records()
	w.cfg.Metrics.Aborted(cause, int(records))
}

// countApplied counts a round that is in the store, and returns how many records it has.
func (w *Worker) countApplied(r *round) int64 {
	now := time.Now()
	age := time.Duration(-1)
	records, oldest := r.records()
	if records > 0 {
		age = max(now.Sub(time.UnixMilli(oldest)), 0) // a record can be ahead of our clock
	}
	w.cfg.Metrics.Applied(now.Sub(r.sealed), records, age)
	return records
}

// committerObserved is what others may read of a committer while it runs.
type committerObserved struct {
	// apply is busy while a round goes to the store.
	apply health.Loop
	// openSince is when the open transaction began, in Unix nanoseconds, 0 without one.
	openSince atomic.Int64
}

func (o *committerObserved) commandBegan(c command) time.Time {
	now := time.Now()
	if c.kind == protocol.Apply {
		o.apply.Began(now)
	}
	return now
}

func (t *committer) transactionBegan(s *committerState) {
	s.beganAt = time.Now()
	t.observed.openSince.Store(s.beganAt.UnixNano())
}

// observe times a command that was carried out, and ends the transaction's time with the answer
// that ends it.
func (t *committer) observe(c command, kind protocol.EventKind, err error, began time.Time) {
	now := time.Now()
	if c.kind == protocol.Apply {
		t.observed.apply.Waits()
	}
	if c.kind != protocol.Stream {
		t.w.cfg.Metrics.Carried(c.kind, now.Sub(began))
	}
	over := kind == protocol.Committed || kind == protocol.Aborted || kind == protocol.Settled && err == nil
	s := &c.round.committerState
	if c.kind == protocol.Stream || !over || !s.began || s.ended {
		return
	}
	s.ended, s.markers = true, t.producer.Touched()
	if s.offsetsSent {
		s.markers++ // the group's partition of the offsets topic
	}
	t.observed.openSince.Store(0)
	t.w.cfg.Metrics.TransactionEnded(now.Sub(s.beganAt), s.markers)
}
