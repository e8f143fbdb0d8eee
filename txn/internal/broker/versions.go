package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/assign"
)

// CheckGroup refuses a group in which a member's data is of a newer major version than this build
// reads, with an error that wraps state.ErrFormat. It changes nothing in the group. Another error
// says that the group cannot be looked at. Data that cannot be read for another reason, and members
// of another protocol, are for the join to deal with; so is a group in the middle of a rebalance,
// which tells nothing of its members.
func (c *Cluster) CheckGroup(ctx context.Context) error {
	groups, err := c.adm.DescribeGroups(ctx, c.group)
	group := groups[c.group]
	if err = cmp.Or(err, group.Err); err != nil {
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
func (c *Cluster) Commits(ctx context.Context) ([]Offset, error) {
	//nolint:forbidigo // what it leaves out is looked at by name before anything is done with it
	responses, err := c.adm.FetchOffsets(ctx, c.group)
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
