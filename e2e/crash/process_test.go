//go:build unix

package crash

import (
	"context"
	"os"
	"os/exec"
	"strings"
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

// points asks the application for the names of its failpoints.
func points(t *testing.T, path string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = append(os.Environ(), failpoints.Variable+"=list")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// process is a life of the application outside of this process, with failpoints.
type process struct {
	*instance.Process
	// hits are closed, one after the other, when the lines that are waited for have appeared.
	hits []chan struct{}
}

// startArmed begins a life outside of this process with points armed. The lines tell of hits.
func (s *scene) startArmed(settings Settings, arm string, lines ...string) *process {
	s.t.Helper()
	cmd, err := measure.Command(context.Background(), s.binary, program.Variable, settings)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, failpoints.Variable+"="+arm)
	log := instance.NewLog(s.t, "the armed process")
	hits := log.Await(lines...)
	return &process{instance.Launch(s.t, cmd, log), hits}
}

// aliveUntil returns an error if the process has ended without a hit. What comes after the hit is looked at later.
func (p *process) aliveUntil(hit <-chan struct{}) func() error {
	return func() error {
		if err := p.Alive(); err != nil && !instance.Closed(hit) {
			return err
		}
		return nil
	}
}
