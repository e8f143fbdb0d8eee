package virtual

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newLeaves has the coordinator refuse to remove a static member for a member id that it does not
// have, as a real broker does. kfake goes by the instance id alone.
func newLeaves(k *Kafka) { k.controls.add(kmsg.LeaveGroup, k.leave) }

// leave refuses a request with FENCED_INSTANCE_ID for all of its members if one of them is stale:
// clients here name one.
func (k *Kafka) leave(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.LeaveGroupRequest)
	group := k.GroupInfo(req.Group)
	if group == nil || k.CurrentNode() != k.CoordinatorFor(req.Group) {
		return nil, false
	}
	current := map[string]string{} // member ids by instance
	for _, m := range group.Members {
		if m.InstanceID != nil {
			current[*m.InstanceID] = m.MemberID
		}
	}
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	stale := false
	for _, m := range req.Members {
		rm := kmsg.NewLeaveGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ErrorCode = m.MemberID, m.InstanceID, kerr.FencedInstanceID.Code
		resp.Members = append(resp.Members, rm)
		if m.InstanceID != nil && m.MemberID != "" {
			is, ok := current[*m.InstanceID]
			stale = stale || ok && is != m.MemberID
		}
	}
	return resp, stale
}
