package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// sliceRecords and sliceTime bound how long the worker computes before it looks at requests again;
// it looks at answers after every record, because a transaction is open while they wait.
const (
	sliceRecords = 256
	sliceTime    = 5 * time.Millisecond
)

// slice is one turn of computing.
type slice struct {
	w     *Worker
	began time.Time
	left  int
}

// most is how long the slice may take: not beyond the end of the open round's interval, or of that
// of a round that begins with it. A round whose interval is over is due already, or has nothing to
// send.
func (s *slice) most() time.Duration {
	left := s.w.cfg.Cadence.IntervalMax
	if s.w.open != nil {
		left -= s.began.Sub(s.w.open.started)
	}
	if left <= 0 {
		return sliceTime
	}
	return min(left, sliceTime)
}

// over reports whether something else is due. It is asked after every entry: user code may take any
// time.
func (s *slice) over() bool {
	s.left--
	return s.left == 0 || len(s.w.answers) > 0 || s.w.alarm.rang()
}

// mayCompute reports whether entries may join the open round now.
func (w *Worker) mayCompute(now time.Time) bool {
	switch {
	case w.stopping, w.failed != nil, !w.state.CanCompute(), now.Before(w.holdUntil):
		return false
	case w.pace.limited() && w.state.Front != protocol.None:
		return false // what is computed meanwhile would take the time that the round in flight needs
	}
	return w.open == nil || !w.open.full
}

// compute processes a slice of records if it may, and reports whether it did anything.
func (w *Worker) compute(now time.Time) bool {
	if !w.mayCompute(now) {
		return false
	}
	s := slice{w: w, began: now, left: sliceRecords}
	w.alarm.set(s.most())
	defer w.alarm.stop()
	for range w.tasks {
		w.rotate = (w.rotate + 1) % len(w.tasks)
		t := w.tasks[w.rotate]
		if _, leaving := w.leaving[t]; leaving || t.Stopped() != nil || now.Before(t.WakeAt()) {
			continue
		}
		if t.Waited() {
			w.cfg.Retrying(t, false)
		}
		t.Pull()
		more := w.computeTask(t, &s)
		if t.TookDropped() {
			w.resumeDrained(t)
		}
		if !more {
			break
		}
	}
	return s.left < sliceRecords
}

// computeTask processes what one task has, and reports whether the next task may follow in this
// slice.
func (w *Worker) computeTask(t *task.Task, s *slice) bool {
	t.Punctuate(s.began)
	for !w.isolation.full(t, w.open) {
		if s.began.Before(t.WakeAt()) {
			return true // what an abort had put before the record that waits is done
		}
		e, ok := t.Next(s.began)
		if !ok {
			return true
		}
		if !w.process(t, e, s.began) || s.over() {
			s.left = min(s.left, sliceRecords-1)
			return false
		}
	}
	return true
}

// process runs one entry and reports whether the next one may follow in this slice.
func (w *Worker) process(t *task.Task, e task.Entry, now time.Time) bool {
	if e.IsControl() {
		r := w.joinedBy(now)
		r.held += r.contribution(t).TookControl(e)
		t.Advance(e, state.NoTime)
		w.joined()
		return w.afterEntry(r)
	}
	_ = w.cfg.Failpoints.Hit(context.Background(), failpoint.ProcessBefore) // an error of user code is no crash point
	v := t.Process(e)
	_ = w.cfg.Failpoints.Hit(context.Background(), failpoint.ProcessAfter)
	w.observed.processed++
	if e.Record == nil && v.Action == graph.Accept && !v.Wrote && len(v.Outputs) == 0 && len(v.Counts) == 0 {
		t.Advance(e, v.EventTime)
		return true // it left nothing that would have to be committed
	}
	switch v.Action {
	case graph.Accept, graph.DeadLetter, graph.Park, graph.Delay:
		r := w.joinedBy(now)
		c := r.contribution(t)
		r.held += c.Took(e, &v)
		r.worked = true
		r.add(c, v.Outputs)
		eventTime := state.NoTime
		if v.Action == graph.Accept {
			eventTime = v.EventTime
		}
		if v.Released == "" {
			t.Advance(e, eventTime)
		} else {
			t.Advance(e, state.NoTime)
			t.MoveTime(v.Released, eventTime)
		}
		r.countState(c)
		w.joined()
		switch {
		case v.Action == graph.DeadLetter:
			w.tellFailure(now, "record dead-lettered", t, e, v.Failure)
		case v.Action == graph.Park && v.Failure != nil:
			w.tellFailure(now, "record parked with what follows of its key", t, e, v.Failure, "after", v.Backoff)
		case v.Action == graph.Delay:
			w.tellFailure(now, "record delayed", t, e, v.Failure, "for", v.Backoff)
		}
		return w.afterEntry(r)
	case graph.Retry:
		w.stats.Retries.Add(1)
		w.cfg.Metrics.Retried(t.ID, v.Failure.Class)
		w.tellFailure(now, "will be tried again", t, e, v.Failure, "after", v.Backoff)
		if t.Postpone(e, now, v.Backoff) {
			w.cfg.Retrying(t, true)
		}
		w.publishRetry(t, &Retry{Entry: e.String(), Attempts: t.Attempts(), Since: t.FailingSince(), Next: t.WakeAt(), Failure: v.Failure})
		w.isolation.leave(t)
		w.keepAttempts(t, e, now)
		w.due() // never wait inside an open transaction
		return false
	default:
		t.PutBack([]task.Entry{e})
		w.halt(t, fmt.Errorf("stopped at %s: %w", e, v.Failure))
		return false
	}
}

// tellFailure logs what becomes of a record that has failed.
func (w *Worker) tellFailure(now time.Time, what string, t *task.Task, e task.Entry, f *graph.Failure, attrs ...any) {
	w.notices.tell(now, reason{what, f.Node, f.Class.String()}, 1,
		append([]any{"task", t.ID.String(), "record", e.String(), "failure", f}, attrs...)...)
}

// keepAttempts makes the task part of the round, which is due, although the record is not: the
// commit says how often it was tried.
func (w *Worker) keepAttempts(t *task.Task, e task.Entry, now time.Time) {
	if e.Record == nil {
		return // a punctuation is not played again after a restart
	}
	w.opened(now).contribution(t)
	w.joined()
}

// joinedBy returns the open round, which there is from its first entry on, with one more entry
// counted.
func (w *Worker) joinedBy(now time.Time) *round {
	r := w.opened(now)
	r.entries++
	return r
}

// opened returns the open round, which there is from then on.
func (w *Worker) opened(now time.Time) *round {
	if w.open == nil {
		w.open = newRound(w.state.BackRound, w.spare.take(w.committers[0].producer.NewSet))
		w.open.started = now
		w.rounds[w.open.n] = w.open
	}
	return w.open
}

// afterEntry hands output over and ends rounds that have enough.
func (w *Worker) afterEntry(r *round) bool {
	switch {
	case r.outputs.bytes() >= w.cfg.Cadence.BytesMax, r.state >= w.cfg.Cadence.BytesMax, w.pace.enough(r.entries), w.isolation.reached(r):
		r.full = true
		w.due()
		return false
	case r.outputs.ahead(w.clock.streamAt()) && !w.state.WantStream && !w.pace.limited() && w.takes(r):
		w.step(protocol.Event{Kind: protocol.Full})
	}
	return true
}

// takes reports whether the round's committer can be handed more without waiting for it: it may be
// held up by the cluster, while the round in flight needs this goroutine for its next step. While
// the producer has enough to send, batches grow instead. The rest goes with the next chunk, or with
// the flush.
func (w *Worker) takes(r *round) bool {
	t := w.committers[r.n%2]
	return len(t.commands) < cap(t.commands)/2 && t.producer.Unsent() < streamBytes
}

// joined tells the protocol of a round's first record; every further one changes nothing.
func (w *Worker) joined() {
	if w.state.Back == protocol.Idle {
		w.step(protocol.Event{Kind: protocol.Joined})
	}
}

func (w *Worker) due() {
	if w.open != nil && w.state.Back != protocol.Idle && !w.state.CommitDue {
		w.step(protocol.Event{Kind: protocol.Due})
	}
}

// maybeDue commits if it is time to, and returns how long the loop may sleep.
func (w *Worker) maybeDue(now time.Time) time.Duration {
	wait := time.Second
	if !w.mayCompute(now) && !now.Before(w.holdUntil) {
		// An answer or a request changes that, and wakes the loop; what is due meanwhile has to
		// wait.
		return w.untilDue(now, wait)
	}
	for _, t := range w.tasks {
		if t.Stopped() != nil {
			continue
		}
		if at := t.WakeAt(); !at.IsZero() {
			wait = min(wait, max(time.Until(at), time.Millisecond))
			continue // whatever else is due has to wait for it
		}
		if at := t.WaitsUntil(); !at.IsZero() {
			wait = min(wait, max(time.Until(at), time.Millisecond))
		}
		if at, ok := t.NextPunctuation(); ok {
			wait = min(wait, max(time.Until(at), time.Millisecond))
		}
		if at, ok := t.NextDelayed(); ok {
			wait = min(wait, max(time.Until(at), time.Millisecond))
		}
	}
	if now.Before(w.holdUntil) {
		wait = min(wait, w.holdUntil.Sub(now)+time.Millisecond)
	}
	return w.untilDue(now, wait)
}

// untilDue commits the open round if it is time to, and returns how long the loop may sleep, at
// most wait.
func (w *Worker) untilDue(now time.Time, wait time.Duration) time.Duration {
	if w.open == nil || w.state.CommitDue || w.state.Back == protocol.Idle {
		return wait
	}
	if w.stopping || len(w.leaving) > 0 {
		w.due()
		return wait
	}
	dueIn := w.clock.dueIn(now, w.open, w.idle(), w.cfg.Budget)
	if dueIn <= 0 {
		w.due()
		return wait
	}
	return min(wait, dueIn)
}

// idle reports whether there is nothing to process right now.
func (w *Worker) idle() bool {
	for _, t := range w.tasks {
		if t.Stopped() != nil || !t.WakeAt().IsZero() {
			continue
		}
		t.Pull()
		if t.Backlog(time.Now()) {
			return false
		}
	}
	return true
}
