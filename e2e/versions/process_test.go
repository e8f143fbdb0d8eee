package versions_test

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
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
)

// process is one life of an instance.
type process struct {
	*cluster.Process
	t        *testing.T
	dir      string
	log, err string // files of the standard output and the standard error
}

// start runs a build. major names the formats whose major version is newer; it means nothing to this build.
func (e *env) start(build, instance, dir, major string) *process {
	e.t.Helper()
	cmd := exec.Command(build, "-brokers="+strings.Join(e.Brokers(), ","), "-application="+e.application, "-in="+e.in, "-out="+e.out,
		"-state-dir="+dir, "-instance="+instance)
	cmd.Env = append(os.Environ(), "ONCEWARD_NEXT_MAJOR="+major)
	p := &process{t: e.t, dir: dir}
	logs := e.t.TempDir()
	p.log, p.err = filepath.Join(logs, "log"), filepath.Join(logs, "err")
	stdout, err := os.Create(p.log)
	if err != nil {
		e.t.Fatal(err)
	}
	defer stdout.Close() // the process has its own
	stderr, err := os.Create(p.err)
	if err != nil {
		e.t.Fatal(err)
	}
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if _, err = cmd.StdinPipe(); err != nil { // it ends with this process
		e.t.Fatal(err)
	}
	if p.Process, err = cluster.Launch(cmd); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			e.t.Error(err)
		}
		if e.t.Failed() {
			e.t.Logf("instance %s:\n%s%s", instance, p.read(p.log), p.read(p.err))
		}
	})
	return p
}

func (p *process) read(file string) string {
	p.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		p.t.Error(err)
	}
	return string(text)
}

// stop ends the process in order.
func (p *process) stop() {
	p.t.Helper()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		p.t.Fatalf("an instance ended with %v: %s", err, p.read(p.err))
	}
}

func (p *process) wait() error {
	p.t.Helper()
	select {
	case <-p.Ended():
	case <-time.After(settleLimit):
		p.t.Fatal("an instance does not end")
	}
	return p.Err()
}

// refused waits until the process has ended by itself, with exit code 1 and one line that says all of the texts.
func (p *process) refused(says ...string) {
	p.t.Helper()
	var exit *exec.ExitError
	if err := p.wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		p.t.Errorf("the older build ended with %v, want exit code 1", err)
	}
	line := p.read(p.err)
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
