//go:build unix

package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/onceward/onceward/bench/measure"
)

type childSettings struct{ Fails bool }

// TestMain has three programs.
func TestMain(m *testing.M) {
	Main(m, Programs{
		"child": func() {
			measure.Run(SettingsVariable, func(s childSettings) error {
				ctx, stop := measure.UntilTold()
				defer stop()
				fmt.Fprintln(os.Stderr, "up")
				if s.Fails {
					return errors.New("it has to")
				}
				<-ctx.Done()
				return nil
			})
		},
		"echo": func() {
			fmt.Println(os.Args[1:])
			os.Exit(3)
		},
		"copy": Application[copySettings],
	})
}

// child starts a process and waits until it can be told something.
func child(t *testing.T, s childSettings) *Process {
	t.Helper()
	cmd, err := measure.Command(context.WithoutCancel(t.Context()), Program(t, "child"), SettingsVariable, s)
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

// TestProgram: a program gets its arguments, says with which code it exits, and is one file however
// often it is asked for. A name that TestMain has not given is refused.
func TestProgram(t *testing.T) {
	path := Program(t, "echo")
	if again := Program(t, "echo"); again != path {
		t.Errorf("the program is in %s and in %s", path, again)
	}
	out, err := exec.Command(path, "-test.v", "two").Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || string(out) != "[-test.v two]\n" {
		t.Errorf("it ended with %v and wrote %q", err, out)
	}
	if _, err := binaries.get("missing", "", linkSelf); err == nil || !strings.Contains(err.Error(), `no program "missing"`) {
		t.Errorf("a program that does not exist gave %v", err)
	}
}
