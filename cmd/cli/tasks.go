package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/txn"
)

// tasksCommand groups what can be done to tasks.
type tasksCommand struct {
	Resume resumeCommand `cmd:"" help:"Open a stopped task again, after what stopped it has been put right."`
}

// resumeCommand asks the instance that runs on a state directory to open a stopped task again.
type resumeCommand struct {
	Task     string        `arg:"" placeholder:"TASK" help:"The task as status names it."`
	StateDir string        `required:"" placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"State directory of the instance."`
	Timeout  time.Duration `default:"5s" placeholder:"DURATION" env:"ONCEWARD_TIMEOUT" help:"How long to wait for the answer; default ${default}."`
}

func (c *resumeCommand) Run(p *process) error {
	ctx, cancel := context.WithTimeout(p.ctx, c.Timeout)
	defer cancel()
	if err := txn.ResumeTask(ctx, c.StateDir, c.Task); err != nil {
		return notRunning(err, c.StateDir)
	}
	_, err := fmt.Fprintf(p.out, "task %s is opened again; status shows how it goes\n", c.Task)
	return err
}
