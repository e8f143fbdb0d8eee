package restoretime

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/benchtopics"
	"github.com/onceward/onceward/bench/measure"
)

func inputTopic(application string) string { return application + "-in" }

// changelog is the name that the runtime and Kafka Streams give to the changelog of a store.
func changelog(application, store string) string { return application + "-" + store + "-changelog" }

// createTopics makes the input topic and the changelogs.
func createTopics(ctx context.Context, c *benchtopics.Cluster, application string, partitions int32) error {
	if err := c.Create(ctx, partitions, nil, inputTopic(application)); err != nil {
		return err
	}
	var changelogs []string
	for _, store := range stores {
		changelogs = append(changelogs, changelog(application, store))
	}
	return c.Create(ctx, partitions, map[string]string{
		"cleanup.policy":        "compact",
		"compression.type":      "uncompressed",
		"min.compaction.lag.ms": fmt.Sprint((24 * time.Hour).Milliseconds()),
	}, changelogs...)
}

// remove deletes the topics and the group of the application, as far as they are there.
func remove(ctx context.Context, c *benchtopics.Cluster, application string) error {
	if err := c.DeletePrefix(ctx, application+"-"); err != nil {
		return err
	}
	return c.DeleteGroup(ctx, application)
}

// read returns what is in one partition of a changelog, from its start to its end.
func read(ctx context.Context, c *benchtopics.Cluster, brokers []string, topic string, partition int32) (Content, error) {
	content, err := readTo(ctx, c, brokers, topic, partition)
	if err != nil {
		return Content{}, fmt.Errorf("reading %s[%d]: %w", topic, partition, err)
	}
	return content, nil
}

func readTo(ctx context.Context, c *benchtopics.Cluster, brokers []string, topic string, partition int32) (Content, error) {
	end, err := c.End(ctx, topic, partition)
	if err != nil {
		return Content{}, err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return Content{}, err
	}
	defer cl.Close()
	var content Content
	hashes := map[string]uint64{}
	for next := int64(0); next < end; {
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
			h := measure.HashEntry(r.Key, r.Value)
			content.Digest += h - hashes[string(r.Key)]
			hashes[string(r.Key)] = h
		})
	}
	content.Entries = int64(len(hashes))
	return content, nil
}
