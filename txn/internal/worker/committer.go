package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
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

// membershipWait is how long a round waits after a refusal by the group. In a cooperative
// rebalance, and when it has joined again, the member learns of its newer generation or its new id
// within a moment.
const membershipWait = time.Second

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
		case <-ctx.Done(): // nobody listens any more; keep draining, so that nobody blocks on handing over
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

// flush sends what is left, the changelog records, and if there was nothing at all one filler; then
// it waits for all of them.
func (t *committer) flush(ctx context.Context, c command) (protocol.EventKind, error) {
	ctx, cancel := context.WithDeadline(ctx, c.round.sealed.Add(t.w.cfg.Deadlines.Flush))
	defer cancel()
	r := c.round
	t.send(ctx, r, c.batches, t.producer.Hold)
	s := &r.committerState
	switch {
	case s.unusable:
		return protocol.ProducerLost, s.err
	case s.err != nil:
		return protocol.FlushFailed, s.err
	case r.outputs.unfit != nil:
		return protocol.FlushFailed, r.outputs.unfit
	}
	logged, err := t.sendChangelogs(r)
	if err != nil {
		return protocol.FlushFailed, err
	}
	if s.records == 0 {
		t.note(fillerKey(r), []byte{})
		s.records++
	}
	for _, contribution := range r.contributions {
		if contribution.First() {
			// In the transaction itself: what the last clean stop has kept is the last word exactly
			// until this commit.
			t.note(task.PositionsKey(contribution.Task.ID.String()), nil)
		}
	}
	if kind, err := t.waitAcknowledged(ctx, s.identity); err != nil {
		return kind, err
	}
	applied, err := t.applied(r, logged)
	if err != nil {
		return protocol.ProducerLost, err
	}
	large := map[*task.Contribution]batch.Place{}
	for i, contribution := range r.contributions {
		contribution.Flushed(s.id, t.w.cfg.Fingerprint, applied[i])
		if len(contribution.Metadata()) > t.w.cfg.MetadataMax {
			large[contribution] = t.note(task.RecordKey(contribution.Task.ID.String()), []byte(contribution.Metadata()))
		}
	}
	if len(large) == 0 {
		return protocol.Flushed, nil
	}
	kind, err := t.waitAcknowledged(ctx, s.identity)
	if err != nil {
		return kind, err
	}
	for contribution, place := range large {
		at, known := place.Offset()
		if !known {
			return protocol.ProducerLost, fmt.Errorf("the offset of the metadata of task %s: %w", contribution.Task.ID, errNoOffset)
		}
		contribution.Refer(roundsPartition, at)
	}
	return kind, nil
}

// roundsPartition is the partition of the rounds topic that is written.
const roundsPartition = 0

// errNoOffset says that a record is written and that the broker has not said where.
var errNoOffset = errors.New("the broker has not named it")

// note adds a record to the rounds topic.
func (t *committer) note(key, value []byte) batch.Place {
	return t.producer.Add(t.w.cfg.RoundsTopic, roundsPartition, time.Now().UnixMilli(), key, value, nil)
}

// waitAcknowledged flushes the producer.
func (t *committer) waitAcknowledged(ctx context.Context, began broker.Identity) (protocol.EventKind, error) {
	switch outcome, err := t.producer.Flush(ctx, began); outcome {
	case broker.Accepted:
		return protocol.Flushed, nil
	case broker.Refused:
		return protocol.FlushFailed, err
	default:
		return protocol.ProducerLost, err
	}
}

// changelog is that of a store of a contribution.
type changelog struct {
	contribution int
	store, topic string
	layout       state.Layout
	written      bool
}

// sendChangelogs produces the layers' writes, one record per key, and returns the changelogs of the
// round.
func (t *committer) sendChangelogs(r *round) (logged []*changelog, err error) {
	for i, contribution := range r.contributions {
		if contribution.Layer == nil {
			continue
		}
		logs := map[state.StoreID]*changelog{}
		for _, cl := range contribution.Task.Changelogs {
			l := &changelog{contribution: i, store: cl.Store, topic: cl.Topic, layout: cl.Layout}
			logs[state.IDOf(cl.Store)] = l
			logged = append(logged, l)
		}
		at := contribution.StreamTime()
		if at == state.NoTime {
			at = time.Now().UnixMilli()
		}
		for w := range contribution.Layer.Logged() {
			l := logs[w.Store]
			if l == nil && contribution.Task.HasTable(w.Store) {
				continue // its topic has the record already
			}
			entry, err := l.layout.Record(w)
			if err != nil {
				return nil, fmt.Errorf("changelog record of store %08x: %w", uint32(w.Store), err)
			}
			timestamp := at
			if entry.Timestamp != state.NoTime {
				timestamp = entry.Timestamp
			}
			t.producer.Add(l.topic, contribution.Task.ID.Partition, timestamp, entry.Key, entry.Value, nil)
			l.written = true
			r.committerState.records++
		}
	}
	return logged, nil
}

// applied returns per contribution and store the offset behind the last changelog record, once all
// are acknowledged.
func (t *committer) applied(r *round, logged []*changelog) ([]map[string]int64, error) {
	applied := make([]map[string]int64, len(r.contributions))
	for _, l := range logged {
		c := r.contributions[l.contribution]
		if applied[l.contribution] == nil {
			applied[l.contribution] = map[string]int64{}
		}
		if !l.written {
			continue
		}
		end, known := t.producer.End(l.topic, c.Task.ID.Partition)
		if !known {
			return nil, fmt.Errorf("the offset of the changelog records of store %s of task %s: %w", l.store, c.Task.ID, errNoOffset)
		}
		applied[l.contribution][l.store] = end
	}
	return applied, nil
}

// sendOffsets compares ownership and sends the offset commit. A refused generation is waited out
// once: the same transaction may still commit under the newer one if every task is still owned.
func (t *committer) sendOffsets(ctx context.Context, r *round) (protocol.EventKind, error) {
	ctx, cancel := context.WithDeadline(ctx, r.sealed.Add(t.w.cfg.Deadlines.Offsets))
	defer cancel()
	var offsets []broker.Offset
	claims := make([]assign.Claim, 0, len(r.contributions))
	for _, c := range r.contributions {
		offsets = append(offsets, c.Offsets()...)
		claims = append(claims, assign.Claim{Task: c.Task.ID, Epoch: c.Task.Epoch, Member: c.Task.Member})
	}
	var refused int32 = -1
	for {
		member, generation, err := t.w.cfg.Ownership.Check(claims, t.w.cfg.Member)
		if err != nil {
			return protocol.OffsetsRefused, err
		}
		if refused >= 0 && generation <= refused {
			return protocol.OffsetsRefused, fmt.Errorf("generation %d was refused and there is no newer one", refused)
		}
		membership, err := broker.NewMembership(member, generation, t.w.cfg.Instance)
		if err != nil {
			return protocol.OffsetsRefused, err
		}
		r.committerState.offsetsSent = true
		outcome, err := t.producer.CommitOffsets(ctx, t.w.cfg.Coordinator, r.committerState.identity, membership, offsets)
		switch outcome {
		case broker.Accepted:
			return protocol.OffsetsAccepted, nil
		case broker.Refused:
			if broker.FencedInstance(err) && t.waitMember(ctx, func(id string, _ int32) bool { return id != "" && id != member }) {
				// It was this process that took its own place in the group, joining again after its
				// session had ended.
				return protocol.OffsetsRefused, fmt.Errorf("%w, while it was committing: %s", assign.ErrMemberChanged, err.Error())
			}
			if !broker.NewerGeneration(err) || refused >= 0 {
				return protocol.OffsetsRefused, err
			}
			refused = generation
			t.waitMember(ctx, func(_ string, generation int32) bool { return generation > refused })
		default:
			return protocol.ProducerLost, err
		}
	}
}

// waitMember waits until what the client knows of its membership is as it should be, at most for
// membershipWait, and reports whether it is.
func (t *committer) waitMember(ctx context.Context, is func(id string, generation int32) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, membershipWait)
	defer cancel()
	for !is(t.w.cfg.Member()) {
		if backoff.Sleep(ctx, 10*time.Millisecond) != nil {
			return is(t.w.cfg.Member())
		}
	}
	return true
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

// settle repeats until the producer is initialised, or is refused for good: nothing else can be
// done before.
func (t *committer) settle(ctx context.Context) error {
	pause := backoff.Backoff{Next: 50 * time.Millisecond, Max: time.Second}
	for {
		attempt, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := t.w.cfg.Failpoints.Hit(attempt, failpoint.SettleBefore)
		if err == nil {
			err = t.w.cfg.Settle(attempt, t.producer)
		}
		if err == nil {
			err = t.w.cfg.Failpoints.Hit(attempt, failpoint.SettleAfter)
		}
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || broker.Permanent(err) || errors.Is(err, ErrReopen) {
			return err
		}
		t.log.Warn("settling a transactional producer", "transactional_id", t.producer.TransactionalID(), "error", err,
			"again_in", pause.Next)
		if pause.Wait(ctx) != nil {
			return err
		}
	}
}

// ask reads the stable offsets of the round's tasks and says whose they are. The metadata text is
// compared as a whole: it holds the round's id, and what was there before may be anything.
func (t *committer) ask(ctx context.Context, r *round) (protocol.EventKind, error) {
	partitions := map[string][]int32{}
	for _, c := range r.contributions {
		in := c.Next.Inputs[0]
		partitions[in.Topic] = append(partitions[in.Topic], in.Partition)
	}
	tasks := make([]string, len(r.contributions))
	for i, c := range r.contributions {
		tasks[i] = c.Task.ID.String()
	}
	waiting := t.w.cfg.Waits.Offsets(tasks...)
	defer waiting.Over()
	offsets, err := t.w.cfg.Cluster.StableOffsets(ctx, partitions, waiting.Still)
	if err != nil {
		return protocol.FoundOurs, err // not answered, see run
	}
	found := map[partition]broker.Offset{}
	for _, o := range offsets {
		found[partition{o.Topic, o.Partition}] = o
	}
	var ours, previous int
	for _, c := range r.contributions {
		in := c.Next.Inputs[0]
		o := found[partition{in.Topic, in.Partition}]
		switch o.Metadata {
		case c.Metadata():
			ours++
		case c.Task.Metadata:
			previous++
		default:
			return protocol.FoundOther, fmt.Errorf("the offset of %s[%d] was committed by somebody else", in.Topic, in.Partition)
		}
	}
	switch {
	case previous == 0:
		return protocol.FoundOurs, nil
	case ours == 0:
		return protocol.FoundPrevious, nil
	default:
		return protocol.FoundMixed, errors.New("stable offsets name the round for some tasks and not for others")
	}
}

type partition struct {
	topic     string
	partition int32
}
