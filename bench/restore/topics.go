package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// pollInterval is how often the cluster and the processes are looked at while something is waited for.
	pollInterval = 20 * time.Millisecond
	// groupWait is beyond the session timeout of a member that was killed, 45 s by default in both contestants.
	groupWait = 2 * time.Minute
	// removeTimeout bounds the tidying up, which happens even after the measurement was stopped.
	removeTimeout = 30 * time.Second
)

// cluster is the measurement's own access to the cluster.
type cluster struct {
	cl  *kgo.Client
	adm *kadm.Client
}

func connect(brokers []string) (*cluster, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(pollInterval/2))
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &cluster{cl: cl, adm: kadm.NewClient(cl)}, nil
}

func (c *cluster) close() { c.cl.Close() }

func inputTopic(application string) string { return application + "-in" }

// changelog is the name that the runtime and Kafka Streams give to the changelog of a store.
func changelog(application, store string) string { return application + "-" + store + "-changelog" }

// create makes the input topic and the changelogs, and waits for their leaders.
func (c *cluster) create(ctx context.Context, application string, partitions int32) error {
	names := []string{inputTopic(application)}
	created, err := c.adm.CreateTopics(ctx, partitions, -1, nil, names...)
	err = errors.Join(err, created.Error())
	if err == nil {
		var changelogs []string
		for _, store := range stores {
			changelogs = append(changelogs, changelog(application, store))
		}
		created, err = c.adm.CreateTopics(ctx, partitions, -1, map[string]*string{
			"cleanup.policy":        kadm.StringPtr("compact"),
			"compression.type":      kadm.StringPtr("uncompressed"),
			"min.compaction.lag.ms": kadm.StringPtr(fmt.Sprint((24 * time.Hour).Milliseconds())),
		}, changelogs...)
		err = errors.Join(err, created.Error())
		names = append(names, changelogs...)
	}
	if err != nil {
		return fmt.Errorf("creating the topics of %s: %w", application, err)
	}
	return poll(ctx, "the leaders of the topics of "+application, func() (bool, error) {
		listed, err := c.adm.ListTopics(ctx, names...)
		if err != nil {
			return false, err
		}
		led := 0
		for _, topic := range listed {
			for _, p := range topic.Partitions {
				if topic.Err == nil && p.Err == nil && p.Leader >= 0 {
					led++
				}
			}
		}
		return led == len(names)*int(partitions), nil
	})
}

// remove deletes the topics and the group of the application, as far as they are there.
func (c *cluster) remove(ctx context.Context, application string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	listed, err := c.adm.ListTopics(ctx)
	if err != nil {
		return err
	}
	names := []string{inputTopic(application), application + "-rounds"}
	for _, store := range stores {
		names = append(names, changelog(application, store))
	}
	var there []string
	for _, name := range names {
		if listed.Has(name) {
			there = append(there, name)
		}
	}
	topics, err := c.adm.DeleteTopics(ctx, there...)
	if err = errors.Join(err, topics.Error()); err != nil {
		return fmt.Errorf("deleting the topics of %s: %w", application, err)
	}
	groups, err := c.adm.DeleteGroups(ctx, application)
	if err = errors.Join(err, groups.Error()); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("deleting the group %s: %w", application, err)
	}
	return nil
}

// awaitEmpty waits until the group has no members: a contestant that came earlier would share the partitions with the last one.
func (c *cluster) awaitEmpty(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, groupWait)
	defer cancel()
	return poll(ctx, "the group "+group+" to be empty", func() (bool, error) {
		described, err := c.adm.DescribeGroups(ctx, group)
		if err != nil {
			return false, err
		}
		g := described[group]
		never := errors.Is(g.Err, kerr.GroupIDNotFound)
		return never || g.Err == nil && (g.State == "Empty" || g.State == "Dead"), nil
	})
}

// read returns what is in one partition of a changelog, from its start to its end.
func (c *cluster) read(ctx context.Context, brokers []string, topic string, partition int32) (Content, error) {
	content, err := c.readTo(ctx, brokers, topic, partition)
	if err != nil {
		return Content{}, fmt.Errorf("reading %s[%d]: %w", topic, partition, err)
	}
	return content, nil
}

func (c *cluster) readTo(ctx context.Context, brokers []string, topic string, partition int32) (Content, error) {
	ends, err := c.adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return Content{}, err
	}
	end, _ := ends.Lookup(topic, partition)
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return Content{}, err
	}
	defer cl.Close()
	var content Content
	hashes := map[string]uint64{}
	for next := int64(0); next < end.Offset; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return Content{}, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if r.Attrs.IsControl() {
				return
			}
			content.Records++
			content.Bytes += int64(len(r.Key) + len(r.Value))
			h := hashEntry(r.Key, r.Value)
			content.Digest += h - hashes[string(r.Key)]
			hashes[string(r.Key)] = h
		})
	}
	content.Entries = int64(len(hashes))
	return content, nil
}

// poll asks until the answer is yes.
func poll(ctx context.Context, what string, ask func() (bool, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}
