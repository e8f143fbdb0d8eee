package benchtopics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// pollInterval is how often something is looked at while it is waited for.
	pollInterval = 20 * time.Millisecond
	// groupWait is beyond the session timeout of a member that was killed, 45 s by default in
	// Onceward and in Kafka Streams.
	groupWait = 2 * time.Minute
	// removeTimeout bounds the tidying up, which happens even after the measurement was stopped.
	removeTimeout = time.Minute
)

// Cluster is a measurement's own access to a cluster, which the applications that it measures do
// not share. Its methods may be called from any goroutine.
type Cluster struct {
	cl  *kgo.Client
	adm *kadm.Client
}

// Connect returns an access to the cluster. It does not talk to it yet. The caller closes it.
func Connect(brokers []string) (*Cluster, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(pollInterval/2))
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Cluster{cl: cl, adm: kadm.NewClient(cl)}, nil
}

// Close ends the connection.
func (c *Cluster) Close() { c.cl.Close() }

// Create makes topics with so many partitions and these settings, which may be nil, and waits for
// their leaders as the function Create does. None of them may be there. The replication is the
// cluster's default.
func (c *Cluster) Create(ctx context.Context, partitions int32, settings map[string]string, names ...string) error {
	configs := make(map[string]*string, len(settings))
	for name, value := range settings {
		configs[name] = &value
	}
	created, err := c.adm.CreateTopics(ctx, partitions, -1, configs, names...)
	if err = errors.Join(err, created.Error()); err != nil {
		return fmt.Errorf("creating the topics %s: %w", strings.Join(names, ", "), err)
	}
	return awaitLeaders(ctx, c.adm, partitions, names)
}

// Delete deletes topics, as far as they are there.
func (c *Cluster) Delete(ctx context.Context, names ...string) error {
	return c.delete(ctx, func(name string) bool { return slices.Contains(names, name) })
}

// DeletePrefix deletes the topics whose names start like this: those that an application made, and
// are named after it.
func (c *Cluster) DeletePrefix(ctx context.Context, prefix string) error {
	return c.delete(ctx, func(name string) bool { return strings.HasPrefix(name, prefix) })
}

func (c *Cluster) delete(ctx context.Context, chosen func(name string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	listed, err := c.adm.ListTopics(ctx)
	if err != nil {
		return err
	}
	there := slices.DeleteFunc(slices.Sorted(maps.Keys(listed)), func(name string) bool { return !chosen(name) })
	if len(there) == 0 {
		return nil
	}
	topics, err := c.adm.DeleteTopics(ctx, there...)
	if err = errors.Join(err, topics.Error()); err != nil {
		return fmt.Errorf("deleting the topics %s: %w", strings.Join(there, ", "), err)
	}
	return nil
}

// DeleteGroup deletes a group, if it is there. It has to be empty.
func (c *Cluster) DeleteGroup(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	groups, err := c.adm.DeleteGroups(ctx, group)
	if err = errors.Join(err, groups.Error()); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("deleting the group %s: %w", group, err)
	}
	return nil
}

// AwaitEmpty waits until the group has no members: an application that came earlier would share the
// partitions with the last one.
func (c *Cluster) AwaitEmpty(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, groupWait)
	defer cancel()
	return Poll(ctx, "the group "+group+" to be empty", func() (bool, error) {
		described, err := c.adm.DescribeGroups(ctx, group)
		if err != nil {
			return false, err
		}
		g := described[group]
		never := errors.Is(g.Err, kerr.GroupIDNotFound)
		return never || g.Err == nil && (g.State == "Empty" || g.State == "Dead"), nil
	})
}

// AwaitShares waits until the group has so many members and each of them has partitions of the
// topic.
func (c *Cluster) AwaitShares(ctx context.Context, group, topic string, members int) error {
	ctx, cancel := context.WithTimeout(ctx, groupWait)
	defer cancel()
	return Poll(ctx, fmt.Sprintf("%d members of the group %s to share %s", members, group, topic), func() (bool, error) {
		described, err := c.adm.DescribeGroups(ctx, group)
		if err != nil {
			return false, err
		}
		g, sharing := described[group], 0
		for _, m := range g.Members {
			assigned, ok := m.Assigned.AsConsumer()
			if ok && slices.ContainsFunc(assigned.Topics, func(t kmsg.ConsumerMemberAssignmentTopic) bool {
				return t.Topic == topic && len(t.Partitions) > 0
			}) {
				sharing++
			}
		}
		return g.Err == nil && g.State == "Stable" && len(g.Members) == members && sharing == members, nil
	})
}

// End returns where a reader of committed records ends in a partition now: its last stable offset.
func (c *Cluster) End(ctx context.Context, topic string, partition int32) (int64, error) {
	ends, err := c.adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("looking for the end of %s: %w", topic, err)
	}
	end, there := ends.Lookup(topic, partition)
	if !there {
		return 0, fmt.Errorf("looking for the end of %s[%d]: there is no such partition", topic, partition)
	}
	return end.Offset, nil
}

// Poll asks until the answer is yes, an error, or ctx ends.
func Poll(ctx context.Context, what string, ask func() (bool, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
