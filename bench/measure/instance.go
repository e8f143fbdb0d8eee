package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// Instance is a child that works until it is told to end (see [UntilTold]), and can be started
// again and again.
type Instance struct {
	// Name is what errors call it.
	Name string
	// Variable and Told are the variable and the settings that it is started with.
	Variable string
	Told     any
	// Args are the arguments of the process, for a program that has to be told to call [Run].
	Args []string
	// Under is a program with its arguments that becomes the instance, such as one that enters a
	// network namespace; none by default.
	Under []string
	// LogPath is the file with the logs of all incarnations.
	LogPath string
	// Started is when the process of the current life was started.
	Started time.Time
	// CPU is the processor time of the lives that have ended.
	CPU time.Duration

	cmd    *exec.Cmd // nil while it is down
	stdin  io.Closer
	exited chan error
}

// Start starts the process. It returns before the instance is ready for anything.
func (i *Instance) Start() error {
	cmd, err := Self(context.Background(), i.Variable, i.Told)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(i.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	cmd.Args = append(cmd.Args, i.Args...)
	if len(i.Under) > 0 {
		under := exec.Command(i.Under[0], append(slices.Clone(i.Under[1:]), append([]string{cmd.Path}, cmd.Args[1:]...)...)...)
		under.Env, cmd = cmd.Env, under
	}
	cmd.Stdout, cmd.Stderr = log, log
	if i.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	i.Started = time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	i.cmd, i.exited = cmd, make(chan error, 1)
	go func(exited chan<- error) { exited <- cmd.Wait() }(i.exited)
	return nil
}

// PID is that of the process, 0 while it is down.
func (i *Instance) PID() int {
	if i.cmd == nil {
		return 0
	}
	return i.cmd.Process.Pid
}

var errUnasked = errors.New("it was not asked to")

// Kill ends the process with SIGKILL and returns once it is gone. It fails if the process had ended
// by itself, and does nothing to one that is down.
func (i *Instance) Kill() error {
	if i.cmd == nil {
		return nil
	}
	err := i.cmd.Process.Kill()
	exit := <-i.exited
	if code := i.reaped(); code >= 0 { // -1 is an end by a signal
		return fmt.Errorf("%s had ended before it was killed, with %d: %w (see %s)", i.Name, code, errors.Join(errUnasked, err, exit), i.LogPath)
	}
	return err
}

// Tell sends a signal to the process, which is up.
func (i *Instance) Tell(s os.Signal) error {
	if err := i.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %s to %s: %w", s, i.Name, err)
	}
	return nil
}

// Stop asks the process to end in order and returns once it is gone. It does nothing to one that is
// down.
func (i *Instance) Stop(ctx context.Context) error {
	if i.cmd == nil {
		return nil
	}
	if err := i.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping %s: %w", i.Name, err)
	}
	select {
	case err := <-i.exited:
		i.reaped()
		if err != nil {
			return fmt.Errorf("%s did not stop in order: %w (see %s)", i.Name, err, i.LogPath)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not stop: %w", i.Name, ctx.Err())
	}
}

func (i *Instance) reaped() (code int) {
	s := i.cmd.ProcessState
	i.CPU += s.UserTime() + s.SystemTime()
	i.cmd = nil
	return s.ExitCode()
}

// Ended returns an error if the process has ended by itself. It is down then.
func (i *Instance) Ended() error {
	if i.cmd == nil {
		return nil
	}
	select {
	case err := <-i.exited:
		return fmt.Errorf("%s has ended by itself with %d: %w (see %s)", i.Name, i.reaped(), errors.Join(errUnasked, err), i.LogPath)
	default:
		return nil
	}
}
