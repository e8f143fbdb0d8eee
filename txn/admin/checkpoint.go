package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/txn/internal/control"
)

// ErrNoTask says that an instance does not have the task that was named.
var ErrNoTask = errors.New("the instance does not have that task")

// Checkpoint makes dir, which must not exist, a checkpoint of a task of the instance on stateDir,
// which may run: it goes on meanwhile. The task is named as in graph.TaskID.String.
// state.Directory.CheckpointTask says what a checkpoint is.
func Checkpoint(ctx context.Context, stateDir, task, dir string) (err error) {
	// The instance may have another working directory.
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("checkpoint of task %s: %w", task, err)
	}
	s, err := OpenState(ctx, stateDir)
	if err != nil {
		return err
	}
	if s.Running() {
		return errors.Join(named(control.Checkpoint(ctx, stateDir, task, dir)), s.Close())
	}
	application := s.Identity().Application
	if err := s.Close(); err != nil {
		return err
	}
	return alone(stateDir, application, func(d *state.Directory) error {
		id, err := parseTask(task)
		if err != nil {
			return err
		}
		there, err := d.Tasks()
		if err != nil {
			return err
		}
		if !slices.Contains(there, id) {
			return fmt.Errorf("checkpoint of task %s from %s: %w", task, stateDir, ErrNoTask)
		}
		path, err := d.TaskPath(id.Subtopology, id.Partition)
		if err != nil {
			return err
		}
		db, err := openDatabase(path)
		if err != nil {
			return err
		}
		return errors.Join(d.CheckpointTask(id.Subtopology, id.Partition, db, dir), db.Close())
	})
}

// ImportTask makes the checkpoint in from the database of a task of the instance on stateDir, which
// must not run and must not have that task's database. A directory that is not there is made for
// application, which may be empty otherwise. Errors are those of state.Directory.ImportTask and of
// state.OpenDirectory.
func ImportTask(stateDir, application, task, from string) error {
	id, err := parseTask(task)
	if err != nil {
		return err
	}
	if application == "" {
		identity, err := state.Identify(stateDir)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no state directory %s yet: name the application that it is to be made for: %w", stateDir, err)
		}
		if err != nil {
			return err
		}
		application = identity.Application
	}
	return alone(stateDir, application, func(d *state.Directory) error { return d.ImportTask(id.Subtopology, id.Partition, from) })
}

// alone does something with a state directory that no instance has.
func alone(stateDir, application string, do func(d *state.Directory) error) (err error) {
	d, err := state.OpenDirectory(stateDir, state.DirectoryOptions{Application: application, Open: openDatabase})
	if err != nil {
		return err
	}
	return errors.Join(do(d), d.Close())
}

func openDatabase(path string) (state.Database, error) {
	return pebblestore.Open(path, pebblestore.Options{})
}

// parseTask reads the name of a task.
func parseTask(text string) (state.TaskDirectory, error) {
	i := strings.LastIndexByte(text, '_')
	if i > 0 {
		if n, err := strconv.ParseInt(text[i+1:], 10, 32); err == nil && n >= 0 {
			return state.TaskDirectory{Subtopology: text[:i], Partition: int32(n)}, nil
		}
	}
	return state.TaskDirectory{}, fmt.Errorf("%q is no task: tasks are named like payments_0: %w", text, ErrNoTask)
}
