package virtual_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
)

// TestStaleMemberIsNotRemoved: a static member is removed under its own member id, and under none;
// not under another one.
func TestStaleMemberIsNotRemoved(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		n := virtual.NewNetwork(t, 1)
		k := virtual.NewKafka(t, n, 1, kfake.SeedTopics(1, "in"))
		admin := k.Client(t, "admin")
		leave := func(member string) error {
			t.Helper()
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group = "group"
			m := kmsg.NewLeaveGroupRequestMember()
			m.MemberID, m.InstanceID = member, kmsg.StringPtr("instance")
			req.Members = append(req.Members, m)
			resp, err := req.RequestWith(t.Context(), admin)
			if err != nil {
				t.Fatal(err)
			}
			return errors.Join(kerr.ErrorForCode(resp.ErrorCode), kerr.ErrorForCode(resp.Members[0].ErrorCode))
		}
		join := func(host string) string {
			t.Helper()
			k.Client(t, host, kgo.ConsumerGroup("group"), kgo.InstanceID("instance"), kgo.ConsumeTopics("in"))
			info, err := k.WaitGroupStable(t.Context(), "group", 1)
			if err != nil {
				t.Fatal(err)
			}
			return info.Members[0].MemberID
		}
		first := join("first")
		if err := leave("another"); !errors.Is(err, kerr.FencedInstanceID) {
			t.Errorf("the removal under another member id gives %v", err)
		}
		if got := k.GroupInfo("group").Members; len(got) != 1 || got[0].MemberID != first {
			t.Errorf("the members are %+v", got)
		}
		if err := leave(first); err != nil {
			t.Errorf("the removal under its own member id gives %v", err)
		}
		join("second")
		if err := leave(""); err != nil {
			t.Errorf("the removal under no member id gives %v", err)
		}
	})
}
