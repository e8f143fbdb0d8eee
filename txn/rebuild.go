package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/control"
)

// ErrNoSuchTask says that a task, or a store of it, is not one of this process.
var ErrNoSuchTask = errors.New("is not one of this instance")

// Rebuild rebuilds the databases of tasks from their changelogs, beside the old ones, and then
// switches. Stores names those to rebuild, none for all; the other stores of a task are copied. No
// tasks means all tasks of the process. Rebuild fails with ErrNoSuchTask, and does nothing, for a
// task or store that is not here.
//
// A new membership begins, as by [App.Resume], so that all tasks of the process pause for a moment.
// The tasks that are rebuilt have the state restoring until the rebuild is done, see [App.Status];
// Rebuild does not wait for that. A task whose changelogs do not hold the state of its last commit
// stops, with its database as it was. If stores are to be kept and the database is damaged, the
// rebuild is given up. The task is then restored in full, as at any other start.
func (a *App) Rebuild(tasks []graph.TaskID, stores ...string) error {
	tasks, err := a.rebuildable(tasks, stores)
	if err != nil {
		return err
	}
	s := a.current()
	if s == nil {
		return errors.New("rebuilding: the instance has no membership at the moment")
	}
	for _, id := range tasks {
		a.log.Info("a database is rebuilt from its changelogs", "task", id.String(), "stores", stores)
		a.rebuilds.Ask(id, stores)
	}
	s.Rebuild()
	return nil
}

// rebuildable returns the tasks to rebuild. If stores are named and no tasks, these are the tasks
// that have all of the stores.
func (a *App) rebuildable(tasks []graph.TaskID, stores []string) ([]graph.TaskID, error) {
	has := map[string][]string{}
	for _, sub := range a.topology.Subtopologies() {
		for _, st := range sub.Restored() {
			has[sub.Name] = append(has[sub.Name], st.Name)
		}
	}
	lacks := func(id graph.TaskID) string {
		for _, st := range stores {
			if !slices.Contains(has[id.Subtopology], st) {
				return st
			}
		}
		return ""
	}
	var here, all []graph.TaskID
	for _, t := range a.Status().Tasks {
		here = append(here, t.ID)
		if len(has[t.ID.Subtopology]) > 0 && lacks(t.ID) == "" {
			all = append(all, t.ID)
		}
	}
	if len(tasks) == 0 {
		if len(all) == 0 {
			return nil, fmt.Errorf("rebuilding: a task with the stores %q %w", stores, ErrNoSuchTask)
		}
		return all, nil
	}
	for _, id := range tasks {
		switch {
		case !slices.Contains(here, id):
			return nil, fmt.Errorf("rebuilding: task %s %w", id, ErrNoSuchTask)
		case len(has[id.Subtopology]) == 0:
			return nil, fmt.Errorf("rebuilding: task %s has no stores", id)
		case lacks(id) != "":
			return nil, fmt.Errorf("rebuilding: the store %q of task %s %w", lacks(id), id, ErrNoSuchTask)
		}
	}
	return tasks, nil
}

// rebuildNamed is Rebuild as operators ask for it.
func (a *App) rebuildNamed(req control.RebuildRequest) ([]string, error) {
	var tasks []graph.TaskID
	for _, name := range req.Tasks {
		here := a.Status().Tasks
		i := slices.IndexFunc(here, func(t TaskStatus) bool { return t.ID.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("rebuilding: task %q %w", name, ErrNoSuchTask)
		}
		tasks = append(tasks, here[i].ID)
	}
	tasks, err := a.rebuildable(tasks, req.Stores)
	if err == nil && !req.DryRun {
		err = a.Rebuild(tasks, req.Stores...)
	}
	if err != nil {
		return nil, err
	}
	names := make([]string, len(tasks))
	for i, id := range tasks {
		names[i] = id.String()
	}
	return names, nil
}

// RebuildTasks asks the instance that runs on a state directory of this machine to rebuild
// databases from their changelogs, as [App.Rebuild] does, and returns the tasks. Tasks are named as
// in [graph.TaskID.String]. A dry run only finds out which they are.
func RebuildTasks(ctx context.Context, stateDir string, tasks, stores []string, dryRun bool) ([]string, error) {
	return control.Rebuild(ctx, stateDir, control.RebuildRequest{Tasks: tasks, Stores: stores, DryRun: dryRun})
}
