// Package benchtopics is what measurements do on a cluster beside the applications that they measure: it
// makes topics and waits for their leaders, waits for groups to come and go, and deletes what was
// made. Its functions, and the methods of a [Cluster], may be called from any goroutine.
package benchtopics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// poll is how often new topics are looked at.
const poll = 20 * time.Millisecond

// ErrPartitions says that a topic is there with another number of partitions.
var ErrPartitions = errors.New("the topic has another number of partitions")

// Create makes the missing topics, with the cluster's settings, and waits until every partition of
// all topics has a leader. Before that, an application would find that they do not exist. An
// existing topic must have as many partitions.
func Create(ctx context.Context, brokers []string, partitions int32, names ...string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(poll/2))
	if err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	there, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("looking for topics: %w", err)
	}
	var missing []string
	for _, name := range names {
		switch t := there[name]; {
		case errors.Is(t.Err, kerr.UnknownTopicOrPartition):
			missing = append(missing, name)
		case t.Err != nil:
			return fmt.Errorf("looking for topic %s: %w", name, t.Err)
		case len(t.Partitions) != int(partitions):
			return fmt.Errorf("topic %s: %w: %d and not %d", name, ErrPartitions, len(t.Partitions), partitions)
		}
	}
	if len(missing) > 0 {
		created, err := adm.CreateTopics(ctx, partitions, -1, nil, missing...)
		if err == nil {
			err = created.Error()
		}
		if err != nil {
			return fmt.Errorf("creating topics: %w", err)
		}
	}
	return awaitLeaders(ctx, adm, partitions, names)
}

func awaitLeaders(ctx context.Context, adm *kadm.Client, partitions int32, names []string) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		listed, err := adm.ListTopics(ctx, names...)
		if err != nil {
			return fmt.Errorf("looking for the leaders of topics: %w", err)
		}
		led := 0
		for _, topic := range listed {
			for _, p := range topic.Partitions {
				if topic.Err == nil && p.Err == nil && p.Leader >= 0 {
					led++
				}
			}
		}
		if led == len(names)*int(partitions) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the leaders of topics: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
