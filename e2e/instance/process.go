package instance

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
)

// Process is one life of an application in a process of its own.
type Process struct {
	*cluster.Process
	// Log is what it writes to its standard error.
	Log *Log
	t   testing.TB
}

// Launch starts a process that says to the log what it writes to its standard error. Its standard
// input ends with the test, where it is killed if it is still there.
func Launch(t testing.TB, cmd *exec.Cmd, log *Log) *Process {
	t.Helper()
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := cluster.Launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		_ = stdin.Close()
	})
	return &Process{p, log, t}
}

// Alive returns an error if the process has ended.
func (p *Process) Alive() error {
	select {
	case <-p.Ended():
		return errors.Join(errEnded, p.Err())
	default:
		return nil
	}
}

// Tell sends a signal to the process, if it is there.
func (p *Process) Tell(s os.Signal) {
	p.t.Helper()
	if err := p.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// Wait waits for the end and returns how it was, as [exec.Cmd.Wait] does.
func (p *Process) Wait() error {
	p.t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-p.Ended():
		return p.Err()
	case <-late.C:
		p.t.Fatal(ErrGoesOn)
		return nil
	}
}

// Stop ends the process in order. It fails the test if that is not how it ends.
func (p *Process) Stop() {
	p.t.Helper()
	p.Tell(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		p.t.Fatalf("the process was to end in order, and ended with %v", err)
	}
}

// Killed waits for the end and fails the test unless SIGKILL was the reason.
func (p *Process) Killed() {
	p.t.Helper()
	err := p.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return
		}
	}
	p.t.Fatalf("the process was to be killed, and ended with %v", err)
}

// Await waits for something that the process has to come to. It fails the test if the process ends
// before, or if that takes longer than [Patience].
func (p *Process) Await(what string, is func() bool) {
	p.t.Helper()
	await(p.t, what, p.Alive, is, func() string { return "nothing like it" })
}
