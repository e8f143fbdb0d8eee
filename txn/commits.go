package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/topics"
)

// checkCommits checks the commits of the application, before the state directory and the group know
// of this instance. It does not wait: pending commits are checked when their tasks are opened.
func (in *instance) checkCommits(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, groupCheckMax)
	defer cancel()
	commits, err := in.cluster.Commits(asked)
	if err != nil { // then there are none to look at
		in.app.log.Warn("cannot read the group's commits", "consequence",
			"each task checks its own when it is opened; records of tasks that the topology no longer has are not looked for", "error", err)
	}
	if err := in.checkModes(commits); err != nil {
		return err
	}
	orphaned := restore.Orphaned(in.topology, commits)
	return in.app.reach(ctx, func() error { return in.checkLeft(ctx, orphaned) })
}

// checkLeft refuses a topology without the tasks for which records wait: a source was removed while
// some of its records are parked, or a repartition topic is not read to its end. Their offsets are
// committed, or the topology does not read them any more, so that they would never be processed. A
// task that exists reports its records when it is opened.
func (in *instance) checkLeft(ctx context.Context, orphaned []broker.Offset) error {
	if len(orphaned) == 0 {
		return nil
	}
	layout, err := in.plan.Verify(ctx, in.cluster, nil)
	if err != nil {
		return err
	}
	restorer := restore.New(restore.Restorer{
		Cluster: in.cluster, Layout: layout, Logger: in.app.log, Waits: in.waits, RoundsTopic: topics.RoundsTopic(in.app.topology.Application()),
		Failpoints: in.app.cfg.failpoints,
	})
	defer restorer.Close()
	left, err := restorer.Left(ctx, in.topology, orphaned)
	if err != nil {
		return err
	}
	errs := make([]error, len(left))
	for i, l := range left {
		errs[i] = fmt.Errorf("application %s is not started: %s; %s", in.app.topology.Application(), l, l.Recovery())
	}
	return errors.Join(errs...)
}
