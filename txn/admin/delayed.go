package admin

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// droppedDelayed counts, for each input, the records that wait in it and do not come again when the
// inputs are read from next on. That is 0 for all but delayed retry topics. It returns nil if the
// task has none.
func (op *operation) droppedDelayed(ctx context.Context, s inspection, next []state.Input) ([]int64, error) {
	var dropped []int64
	for i, in := range s.Inputs {
		src := sourceOf(s.sub, in.Topic)
		if src.Delay == 0 {
			continue
		}
		if dropped == nil {
			dropped = make([]int64, len(s.Inputs))
		}
		from := int64(-1) // of the input that the records are from
		for j, other := range s.Inputs {
			if of := sourceOf(s.sub, other.Topic); of.Delay == 0 && src.Topic == of.RetryTopic(op.topology.Application(), src.Delay) {
				from = next[j].Offset
			}
		}
		err := newReading(op.cluster, in.Topic, op.layout[in.Topic].ID, in.Partition).each(ctx, max(in.Committed, s.bounds[i].start),
			s.bounds[i].end, func(r *broker.Record) error {
				if at, ok := graph.DelayedFrom(headersOf(r)); !ok || from < 0 || at < from {
					dropped[i]++
				}
				return nil
			}, nil)
		if err != nil {
			return nil, fmt.Errorf("looking for waiting records in %s[%d]: %w", in.Topic, in.Partition, err)
		}
	}
	return dropped, nil
}

// sourceOf returns the source of a topic, which the subtopology has.
func sourceOf(sub graph.Subtopology, topic string) (src graph.Source) {
	for _, src = range sub.Sources {
		if src.Topic == topic {
			break
		}
	}
	return src
}
