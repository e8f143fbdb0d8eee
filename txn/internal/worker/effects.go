package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// ErrReopen says that the worker's tasks have to be closed and opened again from the log.
var ErrReopen = errors.New("ownership is not what it was")

// ErrIntegrity says that data and log contradict each other. Nothing was applied.
var ErrIntegrity = errors.New("data integrity")

// answered takes what a committer reports.
func (w *Worker) answered(a answer) {
	w.countAnswer(a)
	if a.err != nil {
		w.log.Warn("commit round", "round", a.Round, "event", a.Kind.String(), "error", a.err)
		w.reaches(a)
	}
	if a.unanswered {
		err := fmt.Errorf("round %d: %w", a.Round, a.err)
		if !broker.Permanent(err) {
			err = fmt.Errorf("%w: %w", ErrReopen, err) // opening the tasks again asks the log again
		}
		w.fail(err)
		return
	}
	if a.Kind == protocol.ApplyFailed || a.Kind == protocol.FoundMixed || a.Kind == protocol.FoundOther {
		w.permanent = a.err
	}
	if r := w.rounds[a.Round]; r != nil && a.Kind == protocol.FoundPrevious {
		w.pace.tooSlow(r.entries) // the broker has ended it before the commit came
	}
	if r := w.rounds[a.Round]; r != nil && (a.Kind == protocol.Committed || a.Kind == protocol.FoundPrevious) {
		r.setDoubt(nil) // after FoundOurs it lasts until the round is applied: until then the store is behind a commit of unknown age
	}
	if r := w.rounds[a.Round]; r != nil && a.Kind == protocol.Applied {
		w.haltMissed(r) // before the step: it may seal the round on top, and must not with these tasks in it
	}
	w.step(a.Event)
	if r := w.rounds[a.Round]; r != nil && r.dropped && (a.Kind == protocol.Aborted || a.Kind == protocol.Settled) {
		delete(w.rounds, a.Round)
	}
}

// reaches notes how far a failure reaches, which decides how its round runs again, or that it does
// not.
func (w *Worker) reaches(a answer) {
	r := w.rounds[a.Round]
	refused, fromRecord := errors.AsType[*broker.ProduceError](a.err)
	unread, fromOffset := errors.AsType[*broker.OffsetError](a.err)
	switch scope := broker.ScopeOf(a.err); {
	case errors.Is(a.err, assign.ErrMemberChanged):
		w.permanent = a.err
	case scope == broker.ScopeMembership:
		w.permanent = fmt.Errorf("%w: %w", ErrReopen, a.err)
	case scope == broker.ScopeRound, !fromRecord && broker.NotYetKnown(a.err):
		if a.Kind == protocol.ProducerLost && r != nil {
			w.pace.tooSlow(r.entries)
		}
	case scope != broker.ScopeProcess && fromRecord && r != nil:
		r.refused = refused
	case scope == broker.ScopeTopic && fromOffset && r != nil:
		r.unread = unread
	default:
		w.permanent = a.err
	}
}

// step advances the protocol and carries out what it asks for.
func (w *Worker) step(e protocol.Event) {
	next, effects := protocol.Step(w.state, e)
	w.state = next
	for _, effect := range effects {
		w.carryOut(effect)
	}
}

func (w *Worker) carryOut(effect protocol.Effect) {
	r := w.rounds[effect.Round]
	switch effect.Kind {
	case protocol.Stream:
		w.hand(command{kind: effect.Kind, round: r, batches: r.outputs.take(false)})
	case protocol.Flush:
		w.seal(r)
	case protocol.End:
		now := time.Now()
		r.setDoubt(&now) // from here on the commit may take place at any time
		w.hand(command{kind: effect.Kind, round: r})
	case protocol.SendOffsets, protocol.Settle, protocol.Ask, protocol.Apply:
		w.hand(command{kind: effect.Kind, round: r})
	case protocol.Abort:
		w.stats.Aborts.Add(1)
		w.hand(command{kind: effect.Kind, round: r})
	case protocol.Retire:
		w.retire(r)
	case protocol.Rerun:
		w.rerun(r)
	case protocol.Reopen:
		w.fail(fmt.Errorf("%w: %w", ErrReopen, w.permanent))
	case protocol.Fail:
		err := fmt.Errorf("%w: %s", ErrIntegrity, effect.Reason)
		if w.permanent != nil {
			err = fmt.Errorf("%w: %w", err, w.permanent)
		}
		w.fail(err)
	}
}

func (w *Worker) fail(err error) {
	if w.failed == nil {
		w.failed = err
	}
}

// hand gives a command to the committer of its round. Committers never wait for the compute
// goroutine while their queue is full, so this ends.
func (w *Worker) hand(c command) { w.committers[c.round.n%2].commands <- c }

// seal freezes the open round and hands it over.
func (w *Worker) seal(r *round) {
	now := time.Now()
	r.sealed = now
	w.clock.sealed(now, r)
	for _, c := range r.contributions {
		c.Seal(now)
	}
	w.open = nil
	w.hand(command{kind: protocol.Flush, round: r, batches: r.outputs.take(true)})
}

// retire ends an applied round: its counts become visible only now.
func (w *Worker) retire(r *round) {
	_ = w.cfg.Failpoints.Hit(context.Background(), failpoint.RetireBefore) // there is nothing that could fail
	delete(w.rounds, r.n)
	w.clock.committed(time.Since(r.sealed))
	w.hold, w.permanent = 0, nil
	w.isolation.committed(r)
	w.pace.committed()
	w.stats.Commits.Add(1)
	w.cfg.Budget.spend(time.Now(), r.committerState.markers)
	r.setDoubt(nil)
	for _, c := range r.contributions {
		c.Retire()
		w.giveBack(c)
		w.stats.DeadLetters.Add(c.DeadLetters)
		w.stats.Punctuations.Add(c.Punctuations)
		w.cfg.Metrics.Contributed(c)
		w.tellLate(c)
		w.publishRound(c)
	}
	w.stats.Outputs.Add(int64(r.outputs.records()))
	records := w.countApplied(r)
	w.stats.Records.Add(records) // last: who sees the records counted finds everything else of their round
	w.reuse(r)
}

// outcomeLate is what windowed aggregations and inboxes count for a record that comes after its
// window or id has expired.
const outcomeLate = "late"

// tellLate logs how many records came too late for a node.
func (w *Worker) tellLate(c *task.Contribution) {
	for _, count := range c.Counts {
		if count.Outcome == outcomeLate {
			w.notices.tell(time.Now(), reason{"records were too late", count.Node, count.Outcome}, count.N,
				"task", c.Task.ID.String(), "node", count.Node, "records", count.N)
		}
	}
}

// reuse keeps the memory of a committed round for those that come. Nothing of it is read from here
// on.
func (w *Worker) reuse(r *round) {
	w.spare.put(r.outputs)
	r.outputs = outputs{}
	for _, c := range r.contributions {
		c.Reuse()
	}
}

// giveBack gives the journal's memory back, and asks for more where a queue has drained.
func (w *Worker) giveBack(c *task.Contribution) {
	for i := range c.Taken {
		c.Task.Release(i, c.Taken[i].Bytes)
	}
	w.resumeDrained(c.Task)
}

// resumeDrained asks for more records of the inputs whose queue has room.
func (w *Worker) resumeDrained(t *task.Task) {
	low := w.cfg.QueueBytesLow()
	for i, in := range t.Spec.Inputs {
		if t.Waiting(i) < low {
			w.cfg.Resume(in.Topic, in.Partition)
		}
	}
}

// Bounds of the pause after rounds that were aborted one after the other.
const (
	holdMin = 20 * time.Millisecond
	holdMax = 5 * time.Second
)

// rerun drops an aborted round and puts its journal back. The protocol asks for it for the back
// round first, so that journals end up in the order front, back, queue.
func (w *Worker) rerun(r *round) {
	_ = w.cfg.Failpoints.Hit(context.Background(), failpoint.RerunBefore) // there is nothing that could fail
	w.countAborted(r)
	if w.state.Back == protocol.Aborting && w.state.BackRound == r.n {
		r.dropped = true // its transaction is still to be aborted, and is over with the answer
	} else {
		delete(w.rounds, r.n)
	}
	if w.open == r {
		w.open = nil
	}
	for _, c := range r.contributions {
		if c.Task.State != nil {
			if c.Layer == nil {
				c.Task.State.DropOpen()
			} else {
				c.Task.State.Drop()
			}
		}
		c.PutBack()
	}
	if r.unread != nil && w.haltReaders(r, r.unread) {
		w.hold, w.holdUntil = 0, time.Time{} // the others have nothing to wait for
		return
	}
	if r.refused != nil {
		if w.isolate(r) {
			w.hold, w.holdUntil = 0, time.Time{} // less is sent this time
			return
		}
		w.permanent = r.refused
	}
	// The reason is told when nothing is left in flight: the transaction of the round that failed
	// is aborted first.
	if w.permanent != nil && w.state.Quiet() {
		w.fail(fmt.Errorf("a round cannot be committed: %w", w.permanent))
		return
	}
	w.hold = min(max(2*w.hold, holdMin), holdMax)
	w.holdUntil = time.Now().Add(w.hold)
}

// fillerKey is that of the record of a round that would otherwise send none.
func fillerKey(r *round) []byte { return []byte("filler " + r.contributions[0].Task.ID.String()) }

// publish makes a task's position visible to Status.
func (w *Worker) publish(t *task.Task) {
	w.status.Lock()
	defer w.status.Unlock()
	s := w.status.tasks[t.ID]
	if s.Outcomes == nil {
		s.Outcomes = map[graph.OutcomeCount]int64{}
	}
	s.Inputs, s.Metadata, s.Parked = t.Committed.Inputs, t.Metadata, t.Parked
	s.Stopped = t.Stopped()
	w.status.tasks[t.ID] = s
}

// publishRetry tells what a task tries again; nil is nothing.
func (w *Worker) publishRetry(t *task.Task, r *Retry) {
	w.status.Lock()
	defer w.status.Unlock()
	if s, ok := w.status.tasks[t.ID]; ok {
		s.Retry = r
		w.status.tasks[t.ID] = s
	}
}

func (w *Worker) publishRound(c *task.Contribution) {
	records, _ := c.Records()
	w.publish(c.Task)
	w.status.Lock()
	defer w.status.Unlock()
	s := w.status.tasks[c.Task.ID]
	s.Records += records
	s.DeadLetters += c.DeadLetters
	for _, n := range c.Counts {
		s.Outcomes[graph.OutcomeCount{Node: n.Node, Outcome: n.Outcome}] += n.N
	}
	w.status.tasks[c.Task.ID] = s
}
