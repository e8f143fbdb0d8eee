package throughput

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/bench/benchtopics"
)

// cluster is the measurement's own access to the cluster.
type cluster struct {
	cl  *kgo.Client
	adm *kadm.Client
}

// offsetFetchMax is the last version of OffsetFetch that takes names of topics; its key is
// offsetFetchKey.
const offsetFetchKey, offsetFetchMax = 9, 8

func connect(brokers []string) (*cluster, error) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(offsetFetchKey, offsetFetchMax)
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(lookInterval), kgo.MaxVersions(versions))
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &cluster{cl: cl, adm: kadm.NewClient(cl)}, nil
}

func (c *cluster) close() { c.cl.Close() }

// partitions returns how many partitions a topic has, 0 if there is no such topic.
func (c *cluster) partitions(ctx context.Context, topic string) (int32, error) {
	listed, err := c.adm.ListTopics(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("looking for topic %s: %w", topic, err)
	}
	found := listed[topic]
	if errors.Is(found.Err, kerr.UnknownTopicOrPartition) || found.Err == nil && len(found.Partitions) == 0 {
		return 0, nil
	}
	if found.Err != nil {
		return 0, fmt.Errorf("looking for topic %s: %w", topic, found.Err)
	}
	return int32(len(found.Partitions)), nil
}

// ends returns the last stable offset of each partition of a topic, from 0 on.
func (c *cluster) ends(ctx context.Context, topic string) ([]int64, error) {
	return offsets(ctx, topic, c.adm.ListCommittedOffsets)
}

// settledEnds returns the ends that the partitions of a topic have now, once no transaction is open
// below them. A broker tells of a commit before its markers are written: the group's offsets can be
// there while the last stable offset is still below the records that were committed with them.
func (c *cluster) settledEnds(ctx context.Context, topic string) ([]int64, error) {
	ends, err := offsets(ctx, topic, c.adm.ListEndOffsets)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		stable, err := c.ends(ctx, topic)
		if err != nil {
			return nil, err
		}
		open := len(stable) < len(ends)
		for p := range min(len(stable), len(ends)) {
			open = open || stable[p] < ends[p]
		}
		if !open {
			return ends, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the transactions in topic %s to end: %w", topic, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// offsets lists an offset of each partition of a topic.
func offsets(
	ctx context.Context, topic string, list func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error),
) ([]int64, error) {
	listed, err := list(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, fmt.Errorf("%w: there is no topic %s", ErrUnusable, topic)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the end of topic %s: %w", topic, err)
	}
	ends := make([]int64, len(listed[topic]))
	for p, o := range listed[topic] {
		if p < 0 || int(p) >= len(ends) {
			return nil, fmt.Errorf("looking for the end of topic %s: there is a partition %d of %d", topic, p, len(ends))
		}
		ends[p] = o.Offset
	}
	return ends, nil
}

// committed returns the group's offsets in each partition of a topic, 0 where it has none. Offsets
// of transactions that are open are not waited for: they are not committed. A coordinator that is
// not there yet, as in the first moments of a cluster, is waited for.
func (c *cluster) committed(ctx context.Context, group, topic string, partitions int) ([]int64, error) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		offsets, err := c.committedNow(ctx, group, topic, partitions)
		if err == nil || !kerr.IsRetriable(err) {
			return offsets, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

func (c *cluster) committedNow(ctx context.Context, group, topic string, partitions int) ([]int64, error) {
	asked := kmsg.NewOffsetFetchRequestGroupTopic()
	asked.Topic = topic
	for p := range partitions {
		asked.Partitions = append(asked.Partitions, int32(p))
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = group, append(g.Topics, asked)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, fmt.Errorf("reading the offsets of group %s: %w", group, err)
	}
	offsets := make([]int64, partitions)
	for _, g := range resp.Groups {
		err := kerr.ErrorForCode(g.ErrorCode)
		if errors.Is(err, kerr.GroupIDNotFound) { // it has not committed yet
			return offsets, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the offsets of group %s: %w", group, err)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("reading the offset of group %s in %s[%d]: %w", group, t.Topic, p.Partition, err)
				}
				if t.Topic == topic && int(p.Partition) < partitions {
					offsets[p.Partition] = max(p.Offset, 0)
				}
			}
		}
	}
	return offsets, nil
}

func sum(offsets []int64) (all int64) {
	for _, o := range offsets {
		all += o
	}
	return all
}

// repartitionTopics returns the names of the application's repartition topics. Kafka Streams names
// its own alike, but for those of a join by a foreign key, which end with "-topic".
func (c *cluster) repartitionTopics(ctx context.Context, application string) ([]string, error) {
	listed, err := c.adm.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for the repartition topics of %s: %w", application, err)
	}
	var names []string
	for name := range listed {
		own := strings.HasPrefix(name, application+"-")
		if own && (strings.HasSuffix(name, "-repartition") || strings.HasSuffix(name, "-topic")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// create makes the topics that are not there.
func create(ctx context.Context, brokers []string, partitions int32, names ...string) error {
	err := benchtopics.Create(ctx, brokers, partitions, names...)
	if errors.Is(err, benchtopics.ErrPartitions) {
		return fmt.Errorf("%w: %w; name another one", ErrUnusable, err)
	}
	return err
}
