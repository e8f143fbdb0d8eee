package virtual

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rejoins ends rebalances that kfake would never end. A static member that joins while its former
// self waits for an answer to SyncGroup makes kfake count one joined member too few, so that it
// waits for the rebalance timeout; and each further join begins that timeout again, where a real
// broker lets it run. Members that give up and join again in turn then wait for ever. Here no
// member may join once a rebalance has lasted twice its timeout; kfake's timer ends it with the
// ones that wait.
type rejoins struct {
	k  *Kafka
	mu sync.Mutex
	// began is when the first member joined since the last one has synced, by group.
	began map[string]time.Time
}

func newRejoins(k *Kafka) *rejoins {
	r := &rejoins{k: k, began: map[string]time.Time{}}
	k.ControlKey(int16(kmsg.JoinGroup), r.join)
	k.ControlKey(int16(kmsg.SyncGroup), r.sync)
	return r
}

func (r *rejoins) join(kreq kmsg.Request) (kmsg.Response, error, bool) {
	r.k.KeepControl()
	req := kreq.(*kmsg.JoinGroupRequest)
	r.mu.Lock()
	defer r.mu.Unlock()
	began, joining := r.began[req.Group]
	if !joining {
		r.began[req.Group] = time.Now()
		return nil, nil, false
	}
	timeout := time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	if lasted := time.Since(began); lasted < 2*timeout || lasted > 4*timeout {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.MemberID = kerr.CoordinatorLoadInProgress.Code, req.MemberID
	return resp, nil, true
}

func (r *rejoins) sync(kreq kmsg.Request) (kmsg.Response, error, bool) {
	r.k.KeepControl()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.began, kreq.(*kmsg.SyncGroupRequest).Group)
	return nil, nil, false
}
