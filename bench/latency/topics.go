package latency

import (
	"context"

	"github.com/onceward/onceward/bench/topics"
)

// Topics are the user topics of one measurement. All of them exist with equal partition counts before an instance starts.
type Topics struct {
	In, Out, Dead string
	Partitions    int32
}

// TopicsOf returns the topics of an application, as far as nothing else is said.
func TopicsOf(application string, partitions int32) Topics {
	return Topics{In: application + "-in", Out: application + "-out", Dead: application + "-dead", Partitions: partitions}
}

// lane returns the input partition of an event, and so the task that processes it.
func (t Topics) lane(event uint64) int32 { return int32(event % accounts % uint64(t.Partitions)) }

// Create makes the topics and waits until every partition has a leader. Topics that are there have to be without records.
func (t Topics) Create(ctx context.Context, brokers []string) error {
	return topics.Create(ctx, brokers, t.Partitions, t.In, t.Out, t.Dead)
}
