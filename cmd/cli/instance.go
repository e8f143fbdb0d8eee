package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// instance says which running instance a command asks, and how long it waits.
type instance struct {
	StateDir string        `required:"" placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"State directory of the instance."`
	Timeout  time.Duration `default:"5s" placeholder:"DURATION" env:"ONCEWARD_TIMEOUT" help:"How long to wait for the answer; default ${default}."`
}

// ask runs a question with the time that it may take, and explains the error of one that nobody has
// answered.
func (i instance) ask(p *process, question func(context.Context) error) error {
	if i.Timeout <= 0 {
		return usage("--timeout: %s is no time to wait; give more than 0s", i.Timeout)
	}
	ctx, cancel := context.WithTimeout(p.ctx, i.Timeout)
	defer cancel()
	err := question(ctx)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ECONNREFUSED) {
		// There is no socket, or one that a killed process has left.
		return fmt.Errorf("no instance runs on the state directory %s; check --state-dir, or start one with run", i.StateDir)
	}
	return err
}
