//go:build unix

package crash

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/failpoints"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/instance/program"
)

// build returns the path of the application with failpoints.
func build(t *testing.T) (path string) {
	t.Helper()
	return instance.Build(t, "github.com/onceward/onceward/e2e/crash/app", "onceward_failpoints")
}

// process is a victim outside of this process.
type process struct {
	*instance.Process
	lines []chan struct{}
	dir   string
}

func (s *scene) startProcess(settings Settings, arm string, lines ...string) *process {
	s.t.Helper()
	cmd, err := measure.Command(context.Background(), build(s.t), program.Variable, settings)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, failpoints.Variable+"="+arm)
	log := instance.NewLog(s.t, "the armed life")
	said := log.Await(lines...)
	return &process{instance.Launch(s.t, cmd, log), said, settings.StateDir}
}

func (p *process) hit(n int) <-chan struct{} { return p.lines[n] }
func (p *process) hits() int                 { return len(p.lines) }
func (p *process) logged() string            { return p.Log.String() }
func (p *process) stop()                     { p.Tell(syscall.SIGTERM) }
func (p *process) freeze()                   { p.Tell(syscall.SIGSTOP) }
func (p *process) thaw()                     { p.Tell(syscall.SIGCONT) }

func (p *process) killed() string {
	p.Killed()
	return p.dir
}

// failed reports whether the program has ended as it does when the application returns an error.
func (p *process) failed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 1
}
