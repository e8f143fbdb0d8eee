package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/backoff"
)

// Offset is the stable committed offset of one partition.
type Offset struct {
	Topic     string
	Partition int32
	// At is the committed offset, -1 when there is none.
	At          int64
	LeaderEpoch int32
	Metadata    string
}

// StableOffsets returns the committed offsets of exactly the partitions that are named, once every
// one of them is stable. Asking for partitions by name is what makes it an oracle: an answer for
// "all partitions" leaves out those whose first commit is still pending. It retries until ctx ends,
// and calls waiting, if it is not nil, whenever a transaction may be what it waits for.
func (c *Cluster) StableOffsets(ctx context.Context, partitions map[string][]int32, waiting func(context.Context)) ([]Offset, error) {
	pause := backoff.Backoff{Next: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	for {
		offsets, pending, err := c.offsetsOnce(ctx, partitions, true)
		if err == nil && len(pending) == 0 {
			return offsets, nil
		}
		if c.cfg.GroupMayBeAbsent && errors.Is(err, kerr.GroupIDNotFound) {
			return noOffsets(partitions), nil
		}
		if err == nil {
			err = kerr.UnstableOffsetCommit
		}
		err = c.cfg.denied(err, attempt{group: c.group})
		if Permanent(err) || ctx.Err() != nil {
			return nil, fmt.Errorf("reading the stable offsets of group %q: %w", c.group, err)
		}
		if waiting != nil && (errors.Is(err, kerr.UnstableOffsetCommit) || errors.Is(err, kerr.GroupIDNotFound)) {
			waiting(ctx)
		}
		if ended := pause.Wait(ctx); ended != nil {
			return nil, fmt.Errorf("reading the stable offsets of group %q: %w (last answer: %w)", c.group, ended, err)
		}
	}
}

// noOffsets are the offsets of a group that does not exist.
func noOffsets(partitions map[string][]int32) (out []Offset) {
	for topic, ps := range partitions {
		for _, p := range ps {
			out = append(out, Offset{Topic: topic, Partition: p, At: -1, LeaderEpoch: -1})
		}
	}
	return out
}

// CommittedOffsets returns the committed offsets of the partitions that are named, sorted by topic
// and partition. Other than StableOffsets it asks once and waits for no transaction. The commit of
// one that is open is not among them, and a later commit may be there already.
func (c *Cluster) CommittedOffsets(ctx context.Context, partitions map[string][]int32) ([]Offset, error) {
	offsets, _, err := c.offsetsOnce(ctx, partitions, false)
	if errors.Is(err, kerr.GroupIDNotFound) {
		offsets, err = noOffsets(partitions), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the offsets of group %q: %w", c.group, c.cfg.denied(err, attempt{group: c.group}))
	}
	slices.SortFunc(offsets, func(a, b Offset) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return offsets, nil
}

// offsetsOnce asks once. Partitions whose offsets are not stable, if that is required, are in
// pending and not in stable; every other one that is named is in stable, or there is an error.
func (c *Cluster) offsetsOnce(
	ctx context.Context, partitions map[string][]int32, requireStable bool,
) (stable []Offset, pending []topicPartition, err error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = requireStable
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = c.group
	asked := 0
	for topic, ps := range partitions {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = topic, ps
		group.Topics = append(group.Topics, t)
		asked += len(ps)
	}
	req.Groups = append(req.Groups, group)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return nil, nil, err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				switch err := kerr.ErrorForCode(p.ErrorCode); {
				case errors.Is(err, kerr.UnstableOffsetCommit):
					pending = append(pending, topicPartition{t.Topic, p.Partition})
					continue
				case err != nil:
					return nil, nil, c.cfg.denied(err, attempt{operation: Read, topic: t.Topic})
				}
				o := Offset{Topic: t.Topic, Partition: p.Partition, At: p.Offset, LeaderEpoch: p.LeaderEpoch}
				if p.Metadata != nil {
					o.Metadata = *p.Metadata
				}
				stable = append(stable, o)
			}
		}
	}
	if got := len(stable) + len(pending); got != asked {
		return nil, nil, fmt.Errorf("%d partitions were asked for and %d answered", asked, got)
	}
	return stable, pending, nil
}
