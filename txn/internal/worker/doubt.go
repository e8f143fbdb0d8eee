package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/protocol"
)

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
			return protocol.FoundOther, fmt.Errorf("the offset of %s[%d] was committed by another program", in.Topic, in.Partition)
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
