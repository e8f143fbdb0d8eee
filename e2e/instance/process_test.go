//go:build unix

package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/onceward/onceward/bench/measure"
)

const envChild = "ONCEWARD_INSTANCE_TEST_CHILD"

type childSettings struct{ Fails bool }

// TestMain lets the test binary be a process too.
func TestMain(m *testing.M) {
	measure.Run(envChild, func(s childSettings) error {
		ctx, stop := measure.UntilTold()
		defer stop()
		fmt.Fprintln(os.Stderr, "up")
		if s.Fails {
			return errors.New("it has to")
		}
		<-ctx.Done()
		return nil
	})
	Main(m)
}

// child starts a process and waits until it can be told something.
func child(t *testing.T, s childSettings) *Process {
	t.Helper()
	cmd, err := measure.Self(context.WithoutCancel(t.Context()), envChild, s)
	if err != nil {
		t.Fatal(err)
	}
	log := NewLog(t, "the child")
	up := log.Await("up")
	p := Launch(t, cmd, log)
	<-up[0]
	return p
}

func TestProcess(t *testing.T) {
	p := child(t, childSettings{})
	if err := p.Alive(); err != nil {
		t.Errorf("alive: %v", err)
	}
	p.Await("its word", func() bool { return len(p.Log.Lines("up")) == 1 })
	p.Stop()
	if p.Alive() == nil {
		t.Error("it is stopped and alive")
	}
	p.Tell(syscall.SIGTERM) // it is gone, and nothing happens

	p = child(t, childSettings{})
	p.Tell(syscall.SIGSTOP)
	p.Tell(syscall.SIGKILL)
	p.Killed()

	p = child(t, childSettings{Fails: true})
	var exit *exec.ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit code 1", err)
	}
	if err := p.Alive(); !errors.Is(err, errEnded) || !errors.As(err, &exit) {
		t.Errorf("after its end: %v", err)
	}
	if got := p.Log.Lines("instance: it has to"); len(got) != 1 {
		t.Errorf("it has not said why, but\n%s", p.Log)
	}
}
