package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/onceward/onceward/txn/admin"
)

// stateCheckpointCommand takes a checkpoint of a task.
type stateCheckpointCommand struct {
	Task     string `arg:"" placeholder:"TASK" help:"The task as status or state stats names it."`
	Dir      string `arg:"" placeholder:"DIR" help:"Directory to make; on the file system of the state it shares large files with it."`
	StateDir string `required:"" placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"State directory of an instance on this machine, running or not."`
}

func (c *stateCheckpointCommand) Run(p *process) error {
	if err := admin.Checkpoint(p.ctx, c.StateDir, c.Task, c.Dir); err != nil {
		return wrongTask(err)
	}
	_, err := fmt.Fprintf(p.out, "%s is a checkpoint of task %s\n", c.Dir, c.Task)
	return err
}

// stateImportCommand gives a task the state of a checkpoint. What was committed since is replayed
// when the task is opened.
type stateImportCommand struct {
	Task        string `arg:"" placeholder:"TASK" help:"The task that the checkpoint is of."`
	Dir         string `arg:"" placeholder:"DIR" help:"The checkpoint; it stays as it is."`
	StateDir    string `required:"" placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"State directory of an instance on this machine that does not run."`
	Application string `placeholder:"ID" env:"ONCEWARD_APPLICATION" help:"Application id, to make a state directory that is not there."`
}

func (c *stateImportCommand) Run(p *process) error {
	if err := admin.ImportTask(c.StateDir, c.Application, c.Task, c.Dir); err != nil {
		return wrongTask(err)
	}
	_, err := fmt.Fprintf(p.out, "task %s has the state of %s; a start replays what was committed since\n", c.Task, c.Dir)
	return err
}

// wrongTask makes a usage error of what was named wrongly.
func wrongTask(err error) error {
	if errors.Is(err, admin.ErrNoTask) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return &usageError{err}
	}
	return err
}
