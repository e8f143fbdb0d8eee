//go:build onceward_failpoints

package broker

import (
	"context"
	"strings"
	"sync"
	"time"

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

// early has the commits that were reported and not answered yet, by *Producer.
var early sync.Map

// earlyEnd is such a commit. next is what it was answered with, once answered is closed; nil if it
// has failed.
type earlyEnd struct {
	answered chan struct{}
	next     *Identity
}

// brokenCommit reports the commits of every other round before they are answered if that mechanism
// is broken, so that the offsets and the commit of the next round do not wait for this one's.
func brokenCommit(p *Producer) bool {
	if !p.cfg.Failpoints.Broken(failpoint.Early) || !strings.HasSuffix(p.id, IDSeparator+"0") { // the first of a worker's two producers
		return false
	}
	cl, began, end := p.cl, p.identity, &earlyEnd{answered: make(chan struct{})}
	early.Store(p, end)
	go func() {
		defer close(end.answered)
		ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
		defer cancel()
		next, err := endTransaction(ctx, cl, p.id, began, true)
		if err == nil { // whatever it is, it was reported as a success
			end.next = &next
		}
	}()
	return true
}

// brokenAwait waits for the end of what brokenCommit has begun. A producer has one transaction at a
// time even so.
func brokenAwait(p *Producer) {
	waits, ok := early.LoadAndDelete(p)
	if !ok {
		return
	}
	end := waits.(*earlyEnd)
	<-end.answered
	p.usable = false
	if end.next != nil {
		p.took(*end.next)
	}
}

// brokenIdentity uses the identity that a fencer got, if that mechanism is broken: a moment later
// it commits the ends of the inputs, as if it had processed them.
func brokenIdentity(c *Cluster, id string, got *kmsg.InitProducerIDResponse) {
	if !c.cfg.Failpoints.Broken(failpoint.Identity) {
		return
	}
	go func() { // it ends by itself
		ctx, cancel := context.WithTimeout(context.Background(), identityAfter+10*time.Second)
		defer cancel()
		time.Sleep(identityAfter)
		_ = c.commitEnds(ctx, id, got.ProducerID, got.ProducerEpoch) // the coordinator may refuse it: then nothing wrong is done
	}()
}

// identityAfter is how long after a fencing its identity is used. The group has not given the
// partitions to others by then.
const identityAfter = time.Second

func (c *Cluster) commitEnds(ctx context.Context, id string, producer int64, epoch int16) error {
	offsets, err := c.adm.FetchOffsets(ctx, c.group)
	if err != nil {
		return err
	}
	ends, err := c.adm.ListCommittedOffsets(ctx, offsets.Partitions().Topics()...)
	if err != nil {
		return err
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.Group, commit.ProducerID, commit.ProducerEpoch, commit.Generation = id, c.group, producer, epoch, -1
	topics := map[string][]kmsg.TxnOffsetCommitRequestTopicPartition{}
	for _, o := range offsets.Sorted() {
		end, ok := ends.Lookup(o.Topic, o.Partition)
		if !ok || end.Err != nil {
			return end.Err
		}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = o.Partition, end.Offset, o.LeaderEpoch, kmsg.StringPtr(o.Metadata)
		topics[o.Topic] = append(topics[o.Topic], p)
	}
	for topic, partitions := range topics {
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		commit.Topics = append(commit.Topics, t)
	}
	if _, err := commit.RequestWith(ctx, c.cl); err != nil {
		return err
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = id, producer, epoch, true
	_, err = end.RequestWith(ctx, c.cl)
	return err
}

// brokenRemoval names no member if that mechanism is broken.
func brokenRemoval(s failpoint.Set, member string) string {
	if s.Broken(failpoint.Removal) {
		return ""
	}
	return member
}
