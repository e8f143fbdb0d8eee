package virtual

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rejoins ends rebalances that kfake would never end. If a static member joins while its earlier
// incarnation waits for an answer to SyncGroup, kfake counts one joined member too few and waits
// for the rebalance timeout. Each further join starts that timeout again, where a real broker does
// not. So members that give up and join again in turn wait for ever. Here no member may join once a
// rebalance has lasted twice its timeout; the timer of kfake ends it with the waiting members.
type rejoins struct {
	k  *Kafka
	mu sync.Mutex
	// began is when the first member joined since the last one has synced, by group.
	began map[string]time.Time
}

func newRejoins(k *Kafka) *rejoins {
	r := &rejoins{k: k, began: map[string]time.Time{}}
	k.controls.add(kmsg.JoinGroup, r.join)
	k.controls.add(kmsg.SyncGroup, r.sync)
	return r
}

func (r *rejoins) join(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.JoinGroupRequest)
	r.mu.Lock()
	defer r.mu.Unlock()
	began, joining := r.began[req.Group]
	if !joining {
		r.began[req.Group] = time.Now()
		return nil, false
	}
	timeout := time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	if lasted := time.Since(began); lasted < 2*timeout || lasted > 4*timeout {
		return nil, false
	}
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.MemberID = kerr.CoordinatorLoadInProgress.Code, req.MemberID
	return resp, true
}

func (r *rejoins) sync(kreq kmsg.Request) (kmsg.Response, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.began, kreq.(*kmsg.SyncGroupRequest).Group)
	return nil, false
}
