package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/protocol"
)

// membershipWait is how long a round waits after a refusal by the group. In a cooperative
// rebalance, and when it has joined again, the member learns of its newer generation or its new id
// within a moment.
const membershipWait = time.Second

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
