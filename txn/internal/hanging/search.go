package hanging

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/topics"
)

// SearchOf returns a search of all that an application reads and writes, and of the partition with
// its offsets. c has to be of its group. Topics that the cluster does not name are in
// Search.Absent. Those that this process may not see are left out too, and the error names them;
// the search is good for the others then.
func SearchOf(ctx context.Context, c *broker.Cluster, t *topology.Topology) (Search, error) {
	if bound, _, err := topics.Bind(ctx, c, t); err == nil {
		t = bound
	} else if !errors.Is(err, topics.ErrAbsent) {
		return Search{}, err
	}
	s := Search{Application: t.Application(), Partitions: map[string][]int32{}, Internal: map[string]bool{}}
	internal := append(t.InternalTopics(), topics.RoundsTopic(t.Application()))
	for _, topic := range internal {
		s.Internal[topic] = true
	}
	s.ReadOnly = readOnly(t)
	names := slices.Concat(t.Topics(), internal)
	found, hidden, err := c.TopicMetadata(ctx, names)
	if err != nil {
		return Search{}, err
	}
	for _, name := range names {
		n := found[name].Partitions
		if n == 0 && !slices.Contains(hidden, name) && !slices.Contains(s.Absent, name) {
			s.Absent = append(s.Absent, name)
		}
		if len(s.Partitions[name]) > 0 {
			continue // a topic has several uses
		}
		for p := range n {
			s.Partitions[name] = append(s.Partitions[name], p)
		}
	}
	offsets, err := c.OffsetsPartition(ctx)
	switch {
	case err == nil:
		s.Partitions[broker.OffsetsTopic] = []int32{offsets}
	case broker.NotYetKnown(err): // no group has ever committed
	case OnlyDenied(err):
		hidden = append(hidden, broker.OffsetsTopic)
	default:
		return Search{}, err
	}
	var missing []broker.Permission
	for _, topic := range hidden {
		missing = append(missing, broker.Permission{Operation: broker.Read, Resource: broker.TopicResource, Name: topic})
	}
	if len(missing) > 0 {
		return s, c.Denied(missing)
	}
	return s, nil
}

// readOnly returns the topics that are not internal and that the application only reads.
func readOnly(t *topology.Topology) map[string]bool {
	out := map[string]bool{}
	for _, topic := range t.Topics() {
		out[topic] = topic != t.DeadLetterTopic()
	}
	for _, sink := range t.SinkTopics() {
		delete(out, sink)
	}
	maps.DeleteFunc(out, func(_ string, only bool) bool { return !only })
	return out
}
