package broker

import (
	"context"
	"log/slog"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/assign"
)

// fakeMember is the process behind a balancer.
type fakeMember struct {
	join    assign.Join
	plan    assign.Plan
	leader  bool
	planned int
}

func (*fakeMember) Assigned(map[string][]int32)                 {}
func (*fakeMember) Revoked(context.Context, map[string][]int32) {}
func (*fakeMember) Lost(map[string][]int32)                     {}
func (f *fakeMember) JoinData() assign.Join                     { return f.join }
func (*fakeMember) Settled()                                    {}
func (f *fakeMember) Planned(p assign.Plan, leader bool) {
	f.plan, f.leader = p, leader
	f.planned++
}

func join(topics ...string) assign.Join {
	return assign.Join{Fingerprint: [8]byte{1}, Subtopologies: []assign.Subtopology{{Name: topics[0], Sources: topics}}}
}

func joined(id string, b *balancer, owned map[string][]int32, generation int32, topics ...string) kmsg.JoinGroupResponseMember {
	m := kmsg.NewJoinGroupResponseMember()
	m.MemberID, m.InstanceID = id+"-member", &id
	m.ProtocolMetadata = b.JoinGroupMetadata(topics, owned, generation)
	return m
}

func lead(t *testing.T, b *balancer, members ...kmsg.JoinGroupResponseMember) map[string][]byte {
	t.Helper()
	mb, topics, err := b.MemberBalancer(members)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int32{}
	for topic := range topics {
		counts[topic] = 2
	}
	mb.(kgo.GroupMemberBalancerInfo).SetBalanceInfo(kgo.BalanceInfo{Generation: 4})
	out := map[string][]byte{}
	for _, a := range mb.Balance(counts).IntoSyncAssignment() {
		out[a.MemberID] = a.MemberAssignment
	}
	return out
}

// TestBalancerRoundTrip: what members say reaches the plan, and the plan reaches the members,
// whole.
func TestBalancerRoundTrip(t *testing.T) {
	a, c := &fakeMember{join: join("left", "right")}, &fakeMember{join: join("left", "right")}
	ba, bc := newBalancer(a, slog.Default()), newBalancer(c, slog.Default())
	topics := []string{"left", "right"}
	sent := lead(t, ba,
		joined("a", ba, map[string][]int32{"left": {0, 1}, "right": {0, 1}}, 3, topics...), joined("c", bc, nil, -1, topics...))
	got, err := ba.ParseSyncAssignment(sent["a-member"])
	if want := map[string][]int32{"left": {0}, "right": {0}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a was assigned %v, %v, want %v", got, err, want)
	}
	if got, err := bc.ParseSyncAssignment(sent["c-member"]); err != nil || len(got) > 0 {
		t.Errorf("c was assigned %v, %v, want nothing yet", got, err)
	}
	if !a.leader || c.leader || len(a.plan.Owed) != 1 || !reflect.DeepEqual(a.plan, c.plan) || a.plan.ID>>32 != 4 {
		t.Errorf("a knows %+v (leads: %v), c knows %+v (leads: %v)", a.plan, a.leader, c.plan, c.leader)
	}
	// The next join ends the role until the coordinator gives it again.
	ba.JoinGroupMetadata(topics, nil, 4)
	if _, err := ba.ParseSyncAssignment(sent["a-member"]); err != nil || a.leader {
		t.Errorf("a leads after it joined again as a member (%v)", err)
	}
}

// TestBalancerRestartedLeader: a static leader that comes back is shown the members but not asked
// for a plan; it leads all the same.
func TestBalancerRestartedLeader(t *testing.T) {
	f := &fakeMember{join: join("in")}
	b := newBalancer(f, slog.Default())
	sent := lead(t, b, joined("a", b, nil, -1, "in"))
	life := newBalancer(f, slog.Default())
	if _, _, err := life.MemberBalancer([]kmsg.JoinGroupResponseMember{joined("a", life, nil, -1, "in")}); err != nil {
		t.Fatal(err)
	}
	f.leader = false
	if got, err := life.ParseSyncAssignment(sent["a-member"]); err != nil || len(got["in"]) != 2 || !f.leader || f.plan.ID>>32 != 4 {
		t.Errorf("assigned %v, %v; leads: %v; plan %+v", got, err, f.leader, f.plan)
	}
}

// TestBalancerDamage: neither a member's nor the plan's bytes stop the group, and nothing is given
// away that an unreadable member holds.
func TestBalancerDamage(t *testing.T) {
	f := &fakeMember{join: join("in")}
	b := newBalancer(f, slog.New(slog.DiscardHandler))
	good := joined("a", b, nil, -1, "in")
	var meta kmsg.ConsumerMemberMetadata
	bad := joined("b", b, map[string][]int32{"in": {1}}, 3, "in")
	if err := meta.ReadFrom(bad.ProtocolMetadata); err != nil {
		t.Fatal(err)
	}
	meta.UserData[len(meta.UserData)-1] ^= 1
	bad.ProtocolMetadata = meta.AppendTo(nil)
	worse := joined("c", b, nil, -1, "in")
	worse.ProtocolMetadata = []byte{9}
	sent := lead(t, b, good, bad, worse)
	if got, err := b.ParseSyncAssignment(sent["a-member"]); err != nil || !reflect.DeepEqual(got, map[string][]int32{"in": {0}}) {
		t.Errorf("a was assigned %v, %v", got, err)
	}
	for _, id := range []string{"b-member", "c-member"} {
		if got, err := b.ParseSyncAssignment(sent[id]); err != nil || len(got) > 0 {
			t.Errorf("%s was assigned %v, %v", id, got, err)
		}
	}
	var assignment kmsg.ConsumerMemberAssignment
	if err := assignment.ReadFrom(sent["a-member"]); err != nil {
		t.Fatal(err)
	}
	assignment.UserData = []byte("not a plan")
	if got, err := b.ParseSyncAssignment(assignment.AppendTo(nil)); err != nil || len(got["in"]) != 1 || f.plan.ID != 0 {
		t.Errorf("without a plan, assigned %v, %v", got, err)
	}
	if got, err := b.ParseSyncAssignment(nil); err != nil || len(got) > 0 {
		t.Errorf("an empty assignment is %v, %v", got, err)
	}
	// The old assignment of another topology.
	b.JoinGroupMetadata([]string{"other"}, nil, -1)
	if got, err := b.ParseSyncAssignment(sent["a-member"]); err != nil || len(got) > 0 {
		t.Errorf("topics that are not subscribed are assigned: %v, %v", got, err)
	}
}

// TestBalancerNonce: the join data differ exactly when a rebalance is forced, and between lives.
func TestBalancerNonce(t *testing.T) {
	f := &fakeMember{join: join("in")}
	b := newBalancer(f, slog.Default())
	data := func(b *balancer) string {
		return string(b.JoinGroupMetadata([]string{"in"}, map[string][]int32{"in": {0}}, 3))
	}
	first := data(b)
	if data(b) != first {
		t.Error("the same join has other data")
	}
	b.nonce.Add(1)
	if data(b) == first {
		t.Error("a forced rebalance has the same data")
	}
	if data(newBalancer(f, slog.Default())) == first {
		t.Error("another life has the same data")
	}
}
