//go:build onceward_broken

package broker

import (
	"context"
	"os"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The negative controls of the soak and of scenarios: the environment names the one mechanism that does not work. They only exist with
// the build tag.
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

// early has the commits that were reported and not answered yet: a channel by *Producer, closed with the answer.
var early sync.Map

// brokenCommit reports the commits of every other round before they are answered, if ONCEWARD_BROKEN is "early", so that the offsets and
// the commit of the next round do not wait for this one's.
func brokenCommit(p *Producer) bool {
	if broken != "early" || !strings.HasSuffix(p.id, IDSeparator+"0") { // the first of a worker's two producers
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
