package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/topics"
)

// Plan compares the topology with the existing application, and says what the next start would make
// of it, before anything is touched. It writes nothing, joins no group, and may be called while
// instances run, old or new ones.
//
// before describes the topology that ran, as [topology.Topology.Description] has it. It is stored
// in the state directory of each instance (state.ReadDescription). It may be nil: then formats of
// stores and records are not compared, and the plan says so.
//
// Plan reads the cluster in any case: topics and their settings, committed offsets, and for each
// task whether state and offsets name each other for the new topology. The rules are those by which
// an instance opens a task. Plan does not read local databases; they follow the changelogs.
// [Application.PlanWith] reads those of a stopped instance. For a table without a changelog
// (topology.RestoreFromTopic) that is not all. Only a start shows whether a directory is there, and
// how much of the topic was compacted while it was not.
func (a *Application) Plan(ctx context.Context, before *graph.Description) (Plan, error) {
	return a.PlanWith(ctx, before, nil)
}

// PlanWith is Plan for an instance with that state: it has to be of this cluster, and its databases
// are judged together with the commits, as the start judges them. That takes no instance of the
// application to be running; otherwise only the cluster is compared. local may be nil.
func (a *Application) PlanWith(ctx context.Context, before *graph.Description, local *State) (Plan, error) {
	p, err := a.look(ctx, before, local)
	if err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	return p.judge(), nil
}

// look gathers what the plan is made of.
func (a *Application) look(ctx context.Context, before *graph.Description, local *State) (_ planInput, err error) {
	cfg := a.client.cfg
	cfg.GroupMayBeAbsent = true
	p := planInput{before: before, after: a.topology.Description(), unread: map[string]restore.Unread{},
		parked: map[string]int64{}, parkedUnknown: map[string]bool{}}
	if before != nil && before.Application != p.after.Application {
		return p, fmt.Errorf("the topology that ran is described as application %s, and this one is application %s", before.Application,
			p.after.Application)
	}
	if p.members, err = a.client.members(ctx, p.after.Application); err != nil {
		return p, err
	}
	cluster, err := broker.Connect(ctx, cfg, p.after.Application)
	if err != nil {
		return p, err
	}
	defer cluster.Close()
	databases := map[graph.TaskID]state.Positions{}
	if local != nil {
		if err := a.client.checkCluster(ctx, local); err != nil {
			return p, err
		}
		if databases, err = local.positions(ctx, len(p.members) == 0); err != nil {
			return p, err
		}
	}
	bound, notRead, err := topics.Bind(ctx, cluster, a.topology)
	p.notRead = notRead
	if p.mismatches, err = mismatchesIn(err); err != nil || len(p.mismatches) > 0 {
		return p, err
	}
	needed, err := topics.Check(ctx, cluster, bound, topics.Options{})
	if p.mismatches, err = mismatchesIn(err); err != nil {
		return p, err
	}
	for _, m := range p.mismatches {
		if !errors.Is(m, topics.ErrAbsent) {
			return p, nil // the existing tasks depend on topics that are as they should be
		}
	}
	var layout topics.Layout
	if p.looked = true; len(p.mismatches) > 0 {
		layout, err = topics.Existing(ctx, cluster, bound)
	} else {
		layout, err = needed.Verify(ctx, cluster, nil)
	}
	if err != nil {
		return p, err
	}
	for _, name := range append(bound.InternalTopics(), topics.RoundsTopic(p.after.Application)) {
		if _, there := layout[name]; !there && !slices.Contains(p.missing, name) {
			p.missing = append(p.missing, name)
		}
	}
	if err := p.countUnread(ctx, cluster, cfg.Logger); err != nil {
		return p, err
	}
	restorer := restore.New(restore.Restorer{
		Cluster: cluster, Layout: layout, Logger: cfg.Logger, Waits: newWaits(cluster, cfg.Logger),
		RoundsTopic: topics.RoundsTopic(p.after.Application), BytesMax: restoreBytes,
	})
	defer restorer.Close()
	l := taskInspector{restorer: restorer, layout: layout, starts: broker.NewStarts(cluster, restore.StartsOf(bound)),
		quiet: len(p.members) == 0, fingerprint: fingerprint(a.topology), databases: databases}
	p.unassigned, p.deletedByClock = l.unassigned(bound), layout.DeletedByClock(bound)
	if p.tasks, err = l.inspectAll(ctx, bound); err != nil {
		return p, err
	}
	if err := p.countParked(ctx, a.client, cluster, restorer); err != nil {
		return p, err
	}
	commits, err := cluster.Commits(ctx)
	if err != nil {
		return p, err
	}
	p.left, err = restorer.Left(ctx, bound, restore.Orphaned(bound, commits))
	return p, err
}

// mismatchesIn takes an error apart: topics that do not fit are findings, everything else stays an
// error.
func mismatchesIn(err error) ([]*topics.Mismatch, error) {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	var mismatches []*topics.Mismatch
	var others []error
	for _, err := range all {
		if m, ok := errors.AsType[*topics.Mismatch](err); ok {
			mismatches = append(mismatches, m)
		} else if err != nil {
			others = append(others, err)
		}
	}
	return mismatches, errors.Join(others...)
}

// describe returns what a topic is; there is false if it does not exist.
func (c *Client) describe(ctx context.Context, topic string) (described kadm.TopicDetail, there bool, err error) {
	listed, err := c.adm.ListTopics(ctx, topic)
	if err != nil {
		return described, false, fmt.Errorf("describing topic %s: %w", topic, err)
	}
	described, there = listed[topic]
	if !there || errors.Is(described.Err, kerr.UnknownTopicOrPartition) {
		return described, false, nil
	}
	if described.Err != nil {
		return described, false, fmt.Errorf("describing topic %s: %w", topic, described.Err)
	}
	return described, true, nil
}

// members returns the names of the instances that are in a group now, sorted; none if there is no
// such group.
func (c *Client) members(ctx context.Context, group string) ([]string, error) {
	described, err := c.adm.DescribeGroups(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("describing group %q: %w", group, err)
	}
	g, ok := described[group]
	switch {
	case !ok, errors.Is(g.Err, kerr.GroupIDNotFound):
		return nil, nil
	case g.Err != nil:
		return nil, fmt.Errorf("describing group %q: %w", group, g.Err)
	}
	names := map[string]bool{}
	for _, m := range g.Members {
		if m.InstanceID != nil {
			names[*m.InstanceID] = true
		} else {
			names[m.MemberID] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}
