package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/protocol"
)

// Deadlines bound every request of a round; past one the producer is settled. Flush, Offsets and
// End count from the seal, and End is below the transaction timeout: a step may use what those
// before it have left, which is what a slow coordinator needs. A round that has sent records before
// it was sealed can still be aborted by the broker, which is answered as any other lost producer.
// Abort counts from its own request.
type Deadlines struct {
	Flush, Offsets, End, Abort time.Duration
}

// DeadlinesFor divides a transaction timeout.
func DeadlinesFor(transactionTimeout time.Duration) Deadlines {
	t := transactionTimeout
	return Deadlines{Flush: t * 60 / 100, Offsets: t * 75 / 100, End: t * 95 / 100, Abort: t * 60 / 100}
}

// command is one effect for a committer.
type command struct {
	kind  protocol.EffectKind
	round *round
	// batches are outputs handed over with Stream and Flush.
	batches []*batch.Batch
}

// answer is an event with what the compute goroutine logs and counts.
type answer struct {
	protocol.Event
	err error
	// unanswered says that there is no event: the effect could not be carried out, and the worker
	// has to give up.
	unanswered bool
}

// committer is one of a worker's two producers with its goroutine.
type committer struct {
	w        *Worker
	producer *broker.Producer
	commands chan command
	log      *slog.Logger
	observed committerObserved
}

// run carries out commands until the channel is closed. ctx ends the waits of a worker that gives
// up.
func (t *committer) run(ctx context.Context) {
	defer t.producer.Close()
	for c := range t.commands {
		do := t.do
		if t.w.cfg.Failpoints.Armed() {
			do = t.doOrFail
		}
		began := t.observed.commandBegan(c)
		kind, err := do(ctx, c)
		t.observe(c, kind, err, began)
		if c.kind == protocol.Stream {
			continue
		}
		// Settling and asking have no answer for "could not": only what is known may be said.
		unanswered := err != nil && (kind == protocol.Settled || kind == protocol.FoundOurs)
		select {
		case t.w.answers <- answer{protocol.Event{Kind: kind, Round: c.round.n}, err, unanswered}:
		case <-ctx.Done(): // the compute goroutine has ended; keep draining, so that no hand blocks
		}
	}
}

func (t *committer) do(ctx context.Context, c command) (protocol.EventKind, error) {
	switch c.kind {
	case protocol.Stream:
		t.send(ctx, c.round, c.batches, t.producer.Send)
		return 0, nil
	case protocol.Flush:
		return t.flush(ctx, c)
	case protocol.SendOffsets:
		return t.sendOffsets(ctx, c.round)
	case protocol.End:
		ctx, cancel := context.WithDeadline(ctx, c.round.sealed.Add(t.w.cfg.Deadlines.End))
		defer cancel()
		if err := brokenBeforeEnd(t.w.cfg.Failpoints, c.round); err != nil {
			return protocol.CommitUnknown, err
		}
		if outcome, err := t.producer.Commit(ctx); outcome != broker.Accepted {
			return protocol.CommitUnknown, err
		}
		return protocol.Committed, nil
	case protocol.Abort:
		return t.abort(ctx, c.round)
	case protocol.Settle:
		return protocol.Settled, t.settle(ctx)
	case protocol.Ask:
		return t.ask(ctx, c.round)
	case protocol.Apply:
		if brokenApplied(t.w.cfg.Failpoints) {
			return protocol.Applied, nil
		}
		return t.apply(c.round)
	default:
		return protocol.ApplyFailed, fmt.Errorf("effect %s is not one of a committer", c.kind)
	}
}

// begin starts the round's transaction unless it has begun.
func (t *committer) begin(ctx context.Context, r *round) error {
	s := &r.committerState
	if s.began || s.err != nil {
		return s.err
	}
	ctx, cancel := context.WithTimeout(ctx, t.w.cfg.Deadlines.Flush)
	defer cancel()
	// The coordinator is looked up before the transaction begins, never inside it.
	if _, err := t.w.cfg.Coordinator.Find(ctx); err != nil {
		s.err = err
		return err
	}
	err := t.w.cfg.Failpoints.Hit(ctx, failpoint.BeginBefore)
	var identity broker.Identity
	if err == nil {
		identity, err = t.producer.Begin()
	}
	if err == nil {
		err = t.w.cfg.Failpoints.Hit(ctx, failpoint.BeginAfter)
	}
	if err != nil {
		s.err, s.unusable = err, true
		return err
	}
	s.began, s.identity = true, identity
	t.transactionBegan(s)
	s.id = state.RoundID{ProducerID: identity.ProducerID, Epoch: identity.Epoch, Incarnation: t.w.cfg.Incarnation}
	return nil
}

// send hands outputs to one of the producer's methods.
func (t *committer) send(ctx context.Context, r *round, batches []*batch.Batch, by func([]*batch.Batch)) {
	if t.begin(ctx, r) != nil {
		return // remembered, answered by the flush
	}
	for _, b := range batches {
		r.committerState.records += int(b.Count())
	}
	by(batches)
}

func (t *committer) abort(ctx context.Context, r *round) (protocol.EventKind, error) {
	if !r.committerState.began {
		return protocol.Aborted, nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.w.cfg.Deadlines.Abort)
	defer cancel()
	if outcome, err := t.producer.Abort(ctx); outcome != broker.Accepted {
		return protocol.AbortUnknown, err
	}
	return protocol.Aborted, nil
}
