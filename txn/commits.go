package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/topics"
)

// checkCommits looks at what the application has committed, before the state directory and the
// group know of this instance. It waits for nobody: commits that are pending are seen when their
// tasks are opened.
func (in *instance) checkCommits(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, groupCheckMax)
	defer cancel()
	commits, err := in.cluster.Commits(asked)
	if err != nil { // then there are none to look at
		in.app.log.Warn("it is not known in which mode the application has run, and what waits for tasks that are gone", "error", err)
	}
	if err := in.checkModes(commits); err != nil {
		return err
	}
	unlooked := restore.Unlooked(in.app.topology, commits)
	return in.app.reach(ctx, func() error { return in.checkLeft(ctx, unlooked) })
}

// checkLeft refuses a topology without the tasks for which records wait: a source that was taken
// away while some are parked, or a repartition topic that is not read to its end. Their offsets are
// committed, or nobody reads them any more, so that the topology would go on without them for good.
// Of a task that is there, its opening says it.
func (in *instance) checkLeft(ctx context.Context, unlooked []broker.Offset) error {
	if len(unlooked) == 0 {
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
	left, err := restorer.Left(ctx, in.app.topology, unlooked)
	if err != nil {
		return err
	}
	errs := make([]error, len(left))
	for i, l := range left {
		errs[i] = fmt.Errorf("application %s is not started: %s; %s", in.app.topology.Application(), l, l.WayOut())
	}
	return errors.Join(errs...)
}
