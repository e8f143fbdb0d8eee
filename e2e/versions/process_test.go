package versions

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/instance/program"
	"github.com/onceward/onceward/txn"
)

// process is one life of an instance.
type process struct {
	*instance.Process
	t   *testing.T
	dir string
}

// start runs a build. major names the formats whose major version is newer; it means nothing to this build.
func (e *env) start(build, name, dir, major string) *process {
	e.t.Helper()
	cmd, err := measure.Command(context.Background(), build, program.Variable, Settings{
		Brokers: e.Brokers(), Application: e.application, Instance: name, StateDir: dir, In: e.in, Out: e.out,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "ONCEWARD_NEXT_MAJOR="+major)
	return &process{instance.Launch(e.t, cmd, instance.NewLog(e.t, "instance "+name)), e.t, dir}
}

// refused waits until the process has ended by itself, with exit code 1 and one line that says all of the texts.
func (p *process) refused(says ...string) {
	p.t.Helper()
	var exit *exec.ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		p.t.Errorf("the older build ended with %v, want exit code 1", err)
	}
	log := "\n" + p.Log.String()
	line := log[max(strings.LastIndex(log, "\ninstance: "), 0):][1:]
	for _, text := range says {
		if !strings.Contains(line, text) {
			p.t.Errorf("it says %q, want %q in it", line, text)
		}
	}
	if strings.Count(line, "\n") != 1 {
		p.t.Errorf("it says %q, want one line", line)
	}
	p.t.Logf("refused: %s", strings.TrimSpace(line))
}

// status asks the process; the zero status stands for one that does not answer yet.
func (p *process) status() txn.Status {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
	defer cancel()
	s, err := txn.InstanceStatus(ctx, p.dir)
	if err != nil {
		return txn.Status{}
	}
	return s
}

// hash stands for the names and the contents of all files below a directory.
func hash(t *testing.T, dir string) [32]byte {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		_, _ = io.WriteString(h, path+"\x00") // never fails
		if d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		sum := sha256.Sum256(data)
		_, _ = h.Write(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return [32]byte(h.Sum(nil))
}
