package cli

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/txn"
)

// tasksCommand groups what can be done to tasks.
type tasksCommand struct {
	Resume resumeCommand `cmd:"" help:"Open a stopped task again, after what stopped it has been put right."`
}

// resumeCommand asks the instance that runs on a state directory to open a stopped task again.
type resumeCommand struct {
	Task string `arg:"" placeholder:"TASK" help:"The task as status names it."`
	instance
}

func (c *resumeCommand) Run(p *process) error {
	err := c.ask(p, func(ctx context.Context) error { return txn.ResumeTask(ctx, c.StateDir, c.Task) })
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "task %s is opened again; status shows how it goes\n", c.Task)
	return err
}
