package admin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/restore"
)

// RebuildFromChangelog rebuilds databases in the state directory of a stopped instance from their
// changelogs, beside the old ones, and then switches. For an instance that runs, use
// txn.RebuildTasks. Stores names those to rebuild, none for all; the other stores of a task are
// copied. Without Options.Tasks it rebuilds all tasks that the directory has and that have those
// stores.
//
// It changes nothing on the cluster, and other instances may run. It is refused if the changelogs
// do not hold the state of the last commit. If one of several tasks fails, or ctx ends, the tasks
// before are rebuilt, and each of the others is as it was.
func (a *Application) RebuildFromChangelog(ctx context.Context, stateDir string, stores []string, o Options) (Report, error) {
	const name = "rebuild from-changelog"
	op, err := a.open(ctx, o)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", name, err)
	}
	defer op.close()
	if _, err := os.Stat(stateDir); err != nil { // opening it would make it
		return Report{}, fmt.Errorf("%s: %w", name, refuse("there is no state directory: %v", err))
	}
	cluster, err := op.cluster.ID(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", name, err)
	}
	dir, err := state.OpenDirectory(stateDir, state.DirectoryOptions{
		Application: a.topology.Application(), Fingerprint: a.topology.Fingerprint(), Cluster: cluster,
	})
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", name, err)
	}
	report, err := op.rebuildIn(ctx, dir, stores, o)
	report.Action = name
	if err = errors.Join(err, dir.Close()); err != nil {
		return Report{}, fmt.Errorf("%s: %w", name, err)
	}
	return report, nil
}

func (op *operation) rebuildIn(ctx context.Context, dir *state.Directory, stores []string, o Options) (Report, error) {
	for _, sub := range op.topology.Subtopologies() {
		for _, lost := range sub.LostOnRestart() {
			if slices.Contains(stores, lost.Name) {
				return Report{}, refuse("store %s cannot be rebuilt: %v", lost.Name, ErrLostOnRestart)
			}
		}
	}
	tasks, err := op.inDirectory(dir, stores, len(o.Tasks) > 0)
	if err != nil {
		return Report{}, err
	}
	report := Report{Application: op.topology.Application(), DryRun: o.DryRun, Tasks: []TaskReport{}, Fenced: []string{}}
	for _, t := range tasks {
		s, err := op.inspect(ctx, t)
		if err != nil {
			return Report{}, err
		}
		if !s.Named() {
			return Report{}, &Refusal{Task: t.id.String(), Reason: s.reason() + "; see to that first"}
		}
		tr := TaskReport{
			Task: t.id.String(), Changed: true, Reason: "the operator wants it", Inputs: []InputReport{}, Changelogs: []ChangelogReport{},
		}
		for _, c := range s.Changelogs {
			if at, _ := s.Commit.Target(c.Store); len(stores) == 0 || slices.Contains(stores, c.Store) {
				tr.Changelogs = append(tr.Changelogs, ChangelogReport{Store: c.Store, Topic: c.Topic, Partition: t.id.Partition, Position: at})
			}
		}
		report.Tasks = append(report.Tasks, tr)
	}
	if o.DryRun {
		return report, nil
	}
	for i, t := range tasks {
		if err := op.rebuildOne(ctx, dir, t, stores, o.Progress); err != nil {
			return Report{}, partly(tasks[:i], t, err)
		}
	}
	return report, nil
}

// inDirectory returns the selected tasks that have the stores and a place in the directory. With
// named tasks it refuses where one has not.
func (op *operation) inDirectory(dir *state.Directory, stores []string, named bool) ([]target, error) {
	var out []target
	for _, t := range op.tasks {
		missing := slices.IndexFunc(stores, func(name string) bool {
			return !slices.ContainsFunc(t.sub.Stores, func(st graph.StoreInfo) bool { return st.Name == name })
		})
		has, err := dir.HasTask(t.id.Subtopology, t.id.Partition)
		switch {
		case err != nil:
			return nil, err
		case has && missing < 0 && len(t.sub.Stores) > 0:
			out = append(out, t)
		case !named:
		case missing >= 0:
			return nil, &Refusal{Task: t.id.String(), Reason: fmt.Sprintf("it has no store %q", stores[missing])}
		case !has:
			return nil, &Refusal{Task: t.id.String(), Reason: "the directory has no database of it; it is restored when it is opened"}
		default:
			return nil, &Refusal{Task: t.id.String(), Reason: "it has no stores"}
		}
	}
	if len(out) == 0 {
		return nil, refuse("the directory %s has no database of a task with the stores %q", dir.Path(), stores)
	}
	return out, nil
}

func (op *operation) rebuildOne(ctx context.Context, dir *state.Directory, t target, stores []string, tell func(Progress)) error {
	var progress restore.Progress
	defer follow(t.id, &progress, tell)()
	return op.restorer.Rebuild(ctx, op.request(t), restore.Rebuild{
		Stores: stores, Directory: dir,
		OpenAt: func(path string) (state.Database, error) {
			return pebblestore.Open(path, pebblestore.Options{Logger: op.restorer.Logger, InMemory: t.sub.InMemory()})
		},
	}, &progress)
}

// partly says what was done before a task failed. It is a refusal only where that is nothing.
func partly(done []target, failed target, err error) error {
	if stop, stops := errors.AsType[*restore.StopError](err); stops && len(done) == 0 {
		return &Refusal{Task: failed.id.String(), Reason: stop.Reason}
	}
	if len(done) == 0 {
		return err
	}
	names := make([]string, len(done))
	for i, t := range done {
		names[i] = t.id.String()
	}
	return fmt.Errorf("rebuilt are %s; %s is as it was: %w", strings.Join(names, ", "), failed.id, err)
}
