package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Coordinator remembers the broker that coordinates the group. Offset commits of transactions go
// straight to it, once, without any retry by the client: a repeated request could overtake a newer
// one.
type Coordinator struct {
	cluster *Cluster
	mu      struct {
		sync.Mutex
		node  int32
		known bool
	}
}

// NewCoordinator returns the coordinator of the cluster's group, not looked up yet.
func NewCoordinator(c *Cluster) *Coordinator { return &Coordinator{cluster: c} }

// Find looks the coordinator up if it is not known. It is called before a transaction begins, never
// inside one.
func (c *Coordinator) Find(ctx context.Context) (int32, error) {
	if node, known := c.known(); known {
		return node, nil
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys, req.CoordinatorType = c.cluster.group, []string{c.cluster.group}, 0
	resp, err := req.RequestWith(ctx, c.cluster.cl)
	if err != nil {
		return 0, fmt.Errorf("finding the coordinator of group %q: %w", c.cluster.group, err)
	}
	node, code := resp.NodeID, resp.ErrorCode
	for _, found := range resp.Coordinators {
		node, code = found.NodeID, found.ErrorCode
	}
	if err := c.cluster.cfg.denied(kerr.ErrorForCode(code), attempt{group: c.cluster.group}); err != nil {
		return 0, fmt.Errorf("finding the coordinator of group %q: %w", c.cluster.group, err)
	}
	c.mu.Lock()
	c.mu.node, c.mu.known = node, true
	c.mu.Unlock()
	return node, nil
}

// known returns the coordinator that Find has found, without a request.
func (c *Coordinator) known() (int32, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.node, c.mu.known
}

// withoutCoordinator says that a broker was asked that does not coordinate the group, or not yet.
func withoutCoordinator(err error) bool {
	return errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.CoordinatorNotAvailable)
}

// errForgotten refuses a round between whose Begin and offset commit another worker has found the
// coordinator to have moved.
var errForgotten = errors.New("the group's coordinator has moved since the transaction began")

// Forget makes the next Find ask again.
func (c *Coordinator) Forget() {
	c.mu.Lock()
	c.mu.known = false
	c.mu.Unlock()
}

// Membership is what fences an offset commit (KIP-447). It can only be made from a live membership:
// an empty member id or a negative generation would be accepted by the broker as a commit from
// outside the group.
type Membership struct {
	member     string
	generation int32
	instance   string
}

// NewMembership refuses what would not fence.
func NewMembership(member string, generation int32, instance string) (Membership, error) {
	if member == "" || generation < 0 {
		return Membership{}, errors.New("the process is not a member of the group at the moment")
	}
	return Membership{member, generation, instance}, nil
}

// OffsetError is a partition whose offset was not taken, the first of the answer.
type OffsetError struct {
	Topic     string
	Partition int32
	Err       error
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("committing the offset of %s[%d]: %v", e.Topic, e.Partition, e.Err)
}

// Unwrap returns the cause.
func (e *OffsetError) Unwrap() error { return e.Err }

// CommitOffsets adds offsets to the transaction that the producer has open: one request, one try,
// to the coordinator that Find has found. It never looks the coordinator up: that may take long,
// and the transaction is open. Workers that share a coordinator can drop it. Then the round is
// refused, and the next one finds the coordinator before it begins. Any partition's error refuses
// the whole; it is an OffsetError.
func (p *Producer) CommitOffsets(ctx context.Context, c *Coordinator, began Identity, m Membership, offsets []Offset) (Outcome, error) {
	node, known := c.known()
	if !known {
		return Refused, fmt.Errorf("committing offsets: %w", errForgotten)
	}
	if broken, err := brokenOffsets(ctx, p.cfg.Failpoints, c, node, m, offsets); broken {
		return Decide(Committing, err), err
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group = p.id, c.cluster.group
	req.ProducerID, req.ProducerEpoch = began.ProducerID, began.Epoch
	req.MemberID, req.Generation = m.member, m.generation
	req.InstanceID = kmsg.StringPtr(m.instance)
	topics := map[string]int{}
	for _, o := range offsets {
		i, ok := topics[o.Topic]
		if !ok {
			i = len(req.Topics)
			topics[o.Topic] = i
			t := kmsg.NewTxnOffsetCommitRequestTopic()
			t.Topic = o.Topic
			req.Topics = append(req.Topics, t)
		}
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.LeaderEpoch = o.Partition, o.At, o.LeaderEpoch
		part.Metadata = kmsg.StringPtr(o.Metadata)
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
	}
	kresp, err := p.cl.Broker(int(node)).Request(ctx, req)
	if err != nil {
		c.Forget()
		return Decide(Committing, err), fmt.Errorf("committing offsets: %w", err)
	}
	answered := 0
	for _, t := range kresp.(*kmsg.TxnOffsetCommitResponse).Topics {
		for _, part := range t.Partitions {
			answered++
			err := kerr.ErrorForCode(part.ErrorCode)
			if err == nil {
				continue
			}
			if withoutCoordinator(err) {
				c.Forget()
			}
			err = p.cfg.denied(err, attempt{operation: Read, topic: t.Topic, group: c.cluster.group, transactionalID: p.id})
			return Decide(Committing, err), &OffsetError{Topic: t.Topic, Partition: part.Partition, Err: err}
		}
	}
	if answered != len(offsets) {
		return Lost, fmt.Errorf("committing offsets: %d partitions were sent and %d answered", len(offsets), answered)
	}
	return Accepted, nil
}

// NewerGeneration reports whether a refusal says that the group is at a newer generation, which the
// same member will learn of in a moment.
func NewerGeneration(err error) bool { return errors.Is(err, kerr.IllegalGeneration) }

// FencedInstance reports whether a refusal says that the group has a newer member with this
// instance id: another process, or this one if it has just joined again.
func FencedInstance(err error) bool { return errors.Is(err, kerr.FencedInstanceID) }
