package txn

import (
	"context"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/topics"
)

// topicLook is what a look at the topics has found.
type topicLook struct {
	// topology has the topics that sources by pattern read, and layout is how all topics are.
	topology *topology.Topology
	layout   topics.Layout
	// notRead are the topics that patterns match and that are not read.
	notRead []topics.Problem
}

// look verifies the topics as they are now. The plan is used by one goroutine at a time. A topic of
// a source by pattern that is gone is left out if an alert says so already, or the caller is not
// patient. Otherwise it is an error, after which a caller asks again.
func (in *instance) look(ctx context.Context, patient bool) (topicLook, error) {
	in.looking.Lock()
	defer in.looking.Unlock()
	bound, notRead, err := topics.Bind(ctx, in.cluster, in.topology)
	if err != nil {
		return topicLook{}, err
	}
	gone := topics.Fresh(bound, in.topology)
	unbelieved := slices.ContainsFunc(gone, func(name string) bool { return !in.app.alerts.has(name, topics.Deleted) })
	if patient && unbelieved {
		return topicLook{}, topics.Gone(in.topology, bound)
	}
	in.plan.Follow(bound)
	layout, err := in.plan.Verify(ctx, in.cluster, in.layout.Load().Without(in.topology, bound))
	return topicLook{bound, layout, notRead}, err
}

// adopt makes what was found the topics of the next membership.
func (in *instance) adopt(seen topicLook) {
	fresh, gone := topics.Fresh(in.topology, seen.topology), topics.Fresh(seen.topology, in.topology)
	if len(fresh) > 0 {
		in.app.log.Info("topics that a pattern matches are new and are read", "topics", strings.Join(fresh, ","))
	}
	if len(gone) > 0 {
		in.app.log.Warn("topics that a pattern has matched are gone and are not read any more", "topics", strings.Join(gone, ","))
	}
	in.looking.Lock()
	in.topology = seen.topology
	in.looking.Unlock()
	in.layout.Store(&seen.layout)
	if len(fresh)+len(gone) > 0 {
		in.self.Subscribe(in.subtopologies())
	}
	in.app.alert(append(seen.layout.NotRead(seen.topology), seen.notRead...))
}
