package broker

import (
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
)

// balancerName is the protocol that all members of a group have to share. It never changes: what
// changes is inside the user data, where versions can be told apart.
const balancerName = "onceward-cooperative"

// balancer puts package assign behind the client's interface. The client calls it from one
// goroutine, ForceRebalance comes from others.
//
// What a member holds and since which generation is said in the consumer protocol's own fields,
// where Kafka's tools show it; the rest is user data.
type balancer struct {
	assignment Assignment
	log        *slog.Logger
	nonce      atomic.Uint64

	mu struct {
		sync.Mutex
		topics []string // subscribed, sorted
		// leading is set by being asked to balance, and also when a restarted static leader is told
		// its role but not to balance.
		leading  bool
		previous *assign.Plan
		last     map[graph.TaskID]string // of the plan made here, for as long as this member leads
	}
}

var (
	_ kgo.GroupBalancer           = (*balancer)(nil)
	_ kgo.GroupMemberBalancerInfo = (*balance)(nil)
)

func newBalancer(a Assignment, log *slog.Logger) *balancer {
	b := &balancer{assignment: a, log: log}
	b.nonce.Store(rand.Uint64()) // another life's nonce must not come again
	return b
}

// ProtocolName is part of kgo.GroupBalancer.
func (*balancer) ProtocolName() string { return balancerName }

// IsCooperative is part of kgo.GroupBalancer.
func (*balancer) IsCooperative() bool { return true }

// JoinGroupMetadata is part of kgo.GroupBalancer.
func (b *balancer) JoinGroupMetadata(topics []string, owned map[string][]int32, generation int32) []byte {
	b.mu.Lock()
	b.mu.topics, b.mu.leading = slices.Clone(topics), false
	b.mu.Unlock()
	join := b.assignment.JoinData()
	join.Nonce = b.nonce.Load()
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version = 3
	meta.Topics = topics
	meta.Generation = generation
	meta.UserData = join.Encode()
	for _, topic := range sortedKeys(owned) {
		p := kmsg.NewConsumerMemberMetadataOwnedPartition()
		p.Topic, p.Partitions = topic, owned[topic]
		meta.OwnedPartitions = append(meta.OwnedPartitions, p)
	}
	return meta.AppendTo(nil)
}

// ParseSyncAssignment is part of kgo.GroupBalancer. Topics that are not subscribed are left out: a
// static member that comes back with another topology is given its old ones.
func (b *balancer) ParseSyncAssignment(data []byte) (map[string][]int32, error) {
	out := map[string][]int32{}
	var plan assign.Plan
	b.mu.Lock()
	topics, leading := b.mu.topics, b.mu.leading
	b.mu.Unlock()
	if len(data) > 0 { // a member that the plan did not know is given nothing at all
		var parsed kmsg.ConsumerMemberAssignment
		if err := parsed.ReadFrom(data); err != nil {
			return nil, err
		}
		for _, t := range parsed.Topics {
			if _, subscribed := slices.BinarySearch(topics, t.Topic); subscribed {
				out[t.Topic] = t.Partitions
			}
		}
		var err error
		if plan, err = assign.DecodePlan(parsed.UserData); err != nil {
			b.log.Warn("the group's plan cannot be read; the assignment is followed all the same", "error", err)
		}
	}
	b.mu.Lock()
	b.mu.previous = &plan
	if !leading {
		b.mu.last = nil
	}
	b.mu.Unlock()
	b.assignment.Planned(plan, leading)
	return out, nil
}

// MemberBalancer is part of kgo.GroupBalancer. No data of a member make it fail: that would stop
// the group.
func (b *balancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	out := &balance{balancer: b}
	topics := map[string]struct{}{}
	for _, m := range members {
		member := b.parseMember(m)
		out.request.Members = append(out.request.Members, member)
		for _, s := range member.Join.Subtopologies {
			for _, topic := range s.Sources {
				topics[topic] = struct{}{}
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.leading = true
	out.request.Previous, out.request.Last = b.mu.previous, b.mu.last
	return out, topics, nil
}

func (b *balancer) parseMember(m kmsg.JoinGroupResponseMember) assign.Member {
	member := assign.Member{ID: m.MemberID, Generation: -1, Owned: map[string][]int32{}}
	if m.InstanceID != nil {
		member.Instance = *m.InstanceID
	}
	var meta kmsg.ConsumerMemberMetadata
	meta.Default()
	err := meta.ReadFrom(m.ProtocolMetadata)
	if err == nil {
		member.Generation = meta.Generation
		for _, o := range meta.OwnedPartitions {
			member.Owned[o.Topic] = append(member.Owned[o.Topic], o.Partitions...)
		}
		member.Join, err = assign.DecodeJoin(meta.UserData)
	}
	if err != nil {
		b.log.Warn("a member's join data cannot be read; it is given no task", "member", member.Key(), "error", err)
	}
	return member
}

// balance makes one plan.
type balance struct {
	balancer *balancer
	request  assign.Request
}

// SetBalanceInfo is part of kgo.GroupMemberBalancerInfo.
func (b *balance) SetBalanceInfo(info kgo.BalanceInfo) {
	b.request.ID = uint64(uint32(info.Generation))<<32 | uint64(rand.Uint32())
}

// Balance is part of kgo.GroupMemberBalancer.
func (b *balance) Balance(partitions map[string]int32) kgo.IntoSyncAssignment {
	b.request.Partitions = partitions
	result := assign.Balance(b.request)
	b.balancer.mu.Lock()
	b.balancer.mu.last = result.Owners
	b.balancer.mu.Unlock()
	return balanced(result)
}

// balanced is a plan on its way to the members.
type balanced assign.Result

// IntoSyncAssignment is part of kgo.IntoSyncAssignment.
func (r balanced) IntoSyncAssignment() []kmsg.SyncGroupRequestGroupAssignment {
	data := r.Plan.Encode()
	var out []kmsg.SyncGroupRequestGroupAssignment
	for _, id := range sortedKeys(r.Assigned) {
		var a kmsg.ConsumerMemberAssignment
		a.UserData = data
		for _, topic := range sortedKeys(r.Assigned[id]) {
			t := kmsg.NewConsumerMemberAssignmentTopic()
			t.Topic, t.Partitions = topic, r.Assigned[id][topic]
			a.Topics = append(a.Topics, t)
		}
		s := kmsg.NewSyncGroupRequestGroupAssignment()
		s.MemberID, s.MemberAssignment = id, a.AppendTo(nil)
		out = append(out, s)
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
