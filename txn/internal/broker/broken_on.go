//go:build onceward_failpoints

package broker

import (
	"context"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/failpoint"
)

// brokenIsolation lets the group read what is not committed if that mechanism is broken.
func brokenIsolation(s failpoint.Set, level kgo.IsolationLevel) kgo.IsolationLevel {
	if s.Broken(failpoint.Uncommitted) {
		return kgo.ReadUncommitted()
	}
	return level
}

// brokenOffsets commits offsets outside of the transaction if that mechanism is broken.
func brokenOffsets(ctx context.Context, s failpoint.Set, c *Coordinator, node int32, m Membership, offsets []Offset) (bool, error) {
	if !s.Broken(failpoint.Offsets) {
		return false, nil
	}
	return true, commitOutside(ctx, c, node, m, offsets)
}

func commitOutside(ctx context.Context, c *Coordinator, node int32, m Membership, offsets []Offset) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = c.cluster.group, m.member, m.generation, kmsg.StringPtr(m.instance)
	for _, o := range offsets {
		md, err := c.cluster.adm.Metadata(ctx, o.Topic) // this request names topics by id
		if err != nil {
			return err
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
		return err
	}
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// early has the commits that were reported and not answered yet: a channel by *Producer, closed with the answer.
var early sync.Map

// brokenCommit reports the commits of every other round before they are answered if that mechanism is broken, so that the offsets and the
// commit of the next round do not wait for this one's.
func brokenCommit(p *Producer) bool {
	if !p.cfg.Failpoints.Broken(failpoint.Early) || !strings.HasSuffix(p.id, IDSeparator+"0") { // the first of a worker's two producers
		return false
	}
	cl, answered := p.cl, make(chan struct{})
	early.Store(p, answered)
	go func() {
		defer close(answered)
		ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
		defer cancel()
		_ = cl.EndTransaction(ctx, kgo.TryCommit) // whatever it is, it was reported as a success
	}()
	return true
}

// brokenAwait waits for the end of what brokenCommit has begun. A producer has one transaction at a time even so.
func brokenAwait(p *Producer) {
	if answered, ok := early.LoadAndDelete(p); ok {
		<-answered.(chan struct{})
	}
}
