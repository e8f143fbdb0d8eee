package hanging

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/txn/internal/broker"
)

// The refusals of a repair. Nothing was written to the partition that the error names, and to none
// after it.
var (
	// ErrUndecided says that neither the evidence nor an operator has decided.
	ErrUndecided = errors.New("it is not decided how the transaction ended")
	// ErrContradicted says that the outcome is the opposite of what the evidence says.
	ErrContradicted = errors.New("the evidence says otherwise")
	// ErrAtWork says that the transaction is ongoing, or that its producer has another one under
	// way.
	ErrAtWork = errors.New("the producer is at work")
	// ErrChanged says that the partition holds another transaction of the producer open than the
	// one that was found, or that no coordinator names the producer any more, which may be because
	// its coordinator is away.
	ErrChanged = errors.New("the open transaction, or its producer, has changed since it was looked at")
	// ErrOrder says that offsets would be repaired before something that they belong to.
	ErrOrder = errors.New("offsets are repaired after all other partitions")
)

// Outcome is what a repair made of one partition.
type Outcome struct {
	broker.OpenTransaction
	// Written is false where the transaction was not open any more.
	Written bool
}

// Repair ends a hanging transaction in the chosen partitions of f.Open, all if chosen is nil, in
// the order of the rule. The verdict is that of the evidence, or an operator's where that is
// Unknown. It returns what it has done before an error.
func Repair(
	ctx context.Context, c *broker.Cluster, f Finding, verdict Verdict, chosen func(broker.OpenTransaction) bool,
) ([]Outcome, error) {
	if err := permitted(f, verdict); err != nil {
		return nil, err
	}
	var done []Outcome
	for _, open := range inOrder(f.Open) {
		if chosen != nil && !chosen(open) {
			continue
		}
		if err := ordered(ctx, c, f, open); err != nil {
			return done, fmt.Errorf("%s[%d]: %w", open.Topic, open.Partition, err)
		}
		now, err := recheck(ctx, c, f, open)
		if err != nil {
			return done, fmt.Errorf("%s[%d]: %w", open.Topic, open.Partition, err)
		}
		if now != nil {
			if err := c.WriteMarker(ctx, *now, verdict == Commit); err != nil {
				return done, err
			}
		}
		done = append(done, Outcome{open, now != nil})
	}
	return done, nil
}

func permitted(f Finding, verdict Verdict) error {
	switch {
	case f.Ongoing(), f.AtWork():
		return ErrAtWork
	case verdict != Commit && verdict != Abort:
		return ErrUndecided
	case f.Decision.Verdict != Unknown && f.Decision.Verdict != verdict:
		return fmt.Errorf("%w: %s", ErrContradicted, f.Decision.Verdict)
	}
	return nil
}

// inOrder does not rely on the order in which a caller has the partitions.
func inOrder(open []broker.OpenTransaction) []broker.OpenTransaction {
	out := slices.Clone(open)
	slices.SortStableFunc(out, func(a, b broker.OpenTransaction) int { return stage(a) - stage(b) })
	return out
}

// ordered refuses offsets while another partition of the transaction is open.
func ordered(ctx context.Context, c *broker.Cluster, f Finding, open broker.OpenTransaction) error {
	if stage(open) == 0 {
		return nil
	}
	before := map[string][]int32{}
	for _, other := range f.Open {
		if stage(other) == 0 {
			before[other.Topic] = append(before[other.Topic], other.Partition)
		}
	}
	still, err := c.OpenTransactions(ctx, before)
	if err != nil {
		return err
	}
	for _, other := range f.Open {
		if slices.ContainsFunc(still, other.Same) {
			return fmt.Errorf("%w, and %s[%d] is still open", ErrOrder, other.Topic, other.Partition)
		}
	}
	return nil
}

// recheck returns the transaction as the partition holds it now, nil if it does not any more.
func recheck(ctx context.Context, c *broker.Cluster, f Finding, was broker.OpenTransaction) (*broker.OpenTransaction, error) {
	named, err := c.NamedProducers(ctx, was.ProducerID)
	if err != nil {
		return nil, err
	}
	switch n, known := named[was.ProducerID]; {
	case known && underWay(n.State):
		return nil, fmt.Errorf("%w: the coordinator of %s says %s", ErrAtWork, n.TransactionalID, n.State)
	case !known && f.Named != nil:
		return nil, fmt.Errorf("%w: no coordinator names its producer any more, which was %s", ErrChanged, f.Named.TransactionalID)
	}
	open, err := c.OpenTransactions(ctx, map[string][]int32{was.Topic: {was.Partition}})
	if err != nil {
		return nil, err
	}
	for _, now := range open {
		switch {
		case now.ProducerID != was.ProducerID:
		case now.Same(was):
			return &now, nil
		default:
			return nil, fmt.Errorf("%w: epoch %d from offset %d on, and it was epoch %d from offset %d on", ErrChanged, now.Epoch,
				now.FirstOffset, was.Epoch, was.FirstOffset)
		}
	}
	return nil, nil //nolint:nilnil // that it has ended is an answer
}
