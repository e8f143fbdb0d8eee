//go:build onceward_broken

package broker

import (
	"context"
	"os"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The negative controls of the soak: the environment names the one mechanism that does not work. They only exist with the build tag.
var broken = os.Getenv("ONCEWARD_BROKEN")

// brokenIsolation lets the group read what is not committed if ONCEWARD_BROKEN is "uncommitted".
func brokenIsolation(level kgo.IsolationLevel) kgo.IsolationLevel {
	if broken == "uncommitted" {
		return kgo.ReadUncommitted()
	}
	return level
}

// brokenOffsets commits offsets outside of the transaction if ONCEWARD_BROKEN is "offsets".
func brokenOffsets(ctx context.Context, c *Coordinator, node int32, m Membership, offsets []Offset) (bool, error) {
	if broken != "offsets" {
		return false, nil
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = c.cluster.group, m.member, m.generation, kmsg.StringPtr(m.instance)
	for _, o := range offsets {
		md, err := c.cluster.adm.Metadata(ctx, o.Topic) // this request names topics by id
		if err != nil {
			return true, err
		}
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = o.Topic, md.Topics[o.Topic].ID
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = o.Partition, o.At, o.LeaderEpoch, kmsg.StringPtr(o.Metadata)
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	resp, err := c.cluster.cl.Broker(int(node)).Request(ctx, req)
	if err != nil {
		return true, err
	}
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}
