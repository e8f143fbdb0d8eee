package latency

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Topics are the user topics of one measurement. All of them exist with equal partition counts before an instance starts.
type Topics struct {
	In, Out, Dead string
	Partitions    int32
}

// lane returns the input partition of an event, and so the task that processes it.
func (t Topics) lane(event uint64) int32 { return int32(event % accounts % uint64(t.Partitions)) }

// leadersPoll is how often new topics are looked at.
const leadersPoll = 20 * time.Millisecond

// CreateTopics creates the topics of an application with that name and waits until every partition has a leader: an instance that
// came earlier would say that they do not exist.
func CreateTopics(ctx context.Context, brokers []string, name string, partitions int32) (Topics, error) {
	t := Topics{In: name + "-in", Out: name + "-out", Dead: name + "-dead", Partitions: partitions}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(leadersPoll/2))
	if err != nil {
		return t, fmt.Errorf("creating the topics of %s: %w", name, err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	created, err := adm.CreateTopics(ctx, partitions, -1, nil, t.In, t.Out, t.Dead)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return t, fmt.Errorf("creating the topics of %s: %w", name, err)
	}
	tick := time.NewTicker(leadersPoll)
	defer tick.Stop()
	for {
		ready, err := led(ctx, adm, t)
		if ready || err != nil {
			return t, err
		}
		select {
		case <-ctx.Done():
			return t, fmt.Errorf("waiting for the leaders of the topics of %s: %w", name, ctx.Err())
		case <-tick.C:
		}
	}
}

// led reports whether every partition has a leader.
func led(ctx context.Context, adm *kadm.Client, t Topics) (bool, error) {
	listed, err := adm.ListTopics(ctx, t.In, t.Out, t.Dead)
	if err != nil {
		return false, fmt.Errorf("looking for the leaders of %s, %s and %s: %w", t.In, t.Out, t.Dead, err)
	}
	n := 0
	for _, topic := range listed {
		for _, p := range topic.Partitions {
			if topic.Err == nil && p.Err == nil && p.Leader >= 0 {
				n++
			}
		}
	}
	return n == 3*int(t.Partitions), nil
}
