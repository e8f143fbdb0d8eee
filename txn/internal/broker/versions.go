package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/backoff"
)

// CheckGroup refuses a group in which a member's data is of a newer major version than this build
// reads, with an error that wraps state.ErrFormat. It changes nothing in the group. Another error
// says that the group cannot be read. The join handles data that cannot be read for another reason,
// and members of another protocol. It also handles a group in the middle of a rebalance, which
// tells nothing of its members. A group that has no coordinator yet is asked again for
// coordinatorMax.
func (c *Cluster) CheckGroup(ctx context.Context) error {
	var group kadm.DescribedGroup
	err := whenCoordinated(ctx, func() error {
		groups, err := c.adm.DescribeGroups(ctx, c.group)
		group = groups[c.group]
		return cmp.Or(err, group.Err)
	})
	if err != nil {
		if errors.Is(err, kerr.GroupIDNotFound) {
			return nil
		}
		return fmt.Errorf("describing the group %s: %w", c.group, err)
	}
	if group.Protocol != balancerName {
		return nil
	}
	for _, m := range group.Members {
		var joinErr, planErr error
		if join, ok := m.Join.AsConsumer(); ok {
			_, joinErr = assign.DecodeJoin(join.UserData)
		}
		if plan, ok := m.Assigned.AsConsumer(); ok {
			_, planErr = assign.DecodePlan(plan.UserData)
		}
		for _, err := range []error{joinErr, planErr} {
			if errors.Is(err, state.ErrFormat) {
				return fmt.Errorf("the group %s is that of a newer build, and this one does not join it: %w, at member %s: use that build "+
					"or a newer one", c.group, err, m.MemberID)
			}
		}
	}
	return nil
}

// Commits returns the offsets that the group has committed, sorted by topic and partition. Other
// than StableOffsets it waits for no transaction: the commit of one that is open is not among them.
// A group that has no coordinator yet is asked again for coordinatorMax.
func (c *Cluster) Commits(ctx context.Context) ([]Offset, error) {
	var responses kadm.OffsetResponses
	err := whenCoordinated(ctx, func() (err error) {
		//nolint:forbidigo // what it leaves out is looked at by name before anything is done with it
		responses, err = c.adm.FetchOffsets(ctx, c.group)
		return err
	})
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fetching the offsets of group %s: %w", c.group, c.cfg.denied(err, attempt{group: c.group}))
	}
	var out []Offset
	for _, o := range responses.Sorted() {
		if o.Err == nil {
			out = append(out, Offset{Topic: o.Topic, Partition: o.Partition, At: o.At, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata})
		}
	}
	return out, nil
}

// A group that has no coordinator is asked each coordinatorPause, for coordinatorMax.
const (
	coordinatorPause = 250 * time.Millisecond
	coordinatorMax   = 5 * time.Second
)

// whenCoordinated asks again while the group has no coordinator: a new cluster creates the topic of
// offsets when it is first asked for one, and a coordinator that has moved loads its log. It begins
// no request after coordinatorMax, and returns the last answer.
func whenCoordinated(ctx context.Context, ask func() error) error {
	last := time.Now().Add(coordinatorMax - coordinatorPause)
	for {
		err := ask()
		if !withoutCoordinator(err) || time.Now().After(last) || backoff.Sleep(ctx, coordinatorPause) != nil {
			return err
		}
	}
}
