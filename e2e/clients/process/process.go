//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
)

// Instance is an instance of an application as a scenario sees it. It is started and ended any number of times, always with the same
// name and state directory. It belongs to one goroutine.
type Instance struct {
	name    string
	binary  string
	args    []string
	log     *instance.Log    // of all lives
	process *cluster.Process // nil while it is down
	console *console         // of the current life
}

// New returns an instance of an application that [instance.Build] has built, with further arguments, which is down. It is killed at the
// end of the test, if it is up then, and shows its log if that failed.
func New(t testing.TB, binary, name string, brokers []string, args ...string) *Instance {
	t.Helper()
	p := &Instance{name: name, binary: binary, log: instance.NewLog(t, name), console: &console{}}
	p.args = append([]string{
		"--brokers", strings.Join(brokers, ","), "--instance", name, "--state-dir", filepath.Join(t.TempDir(), "state"),
	}, args...)
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Name returns the name of the instance.
func (p *Instance) Name() string { return p.name }

// Up reports whether the process was started and not ended by this one. It may have ended by itself, which Check tells.
func (p *Instance) Up() bool { return p.process != nil }

// Start starts the process; the application is not up yet when Start returns.
func (p *Instance) Start() error {
	cmd := exec.Command(p.binary, p.args...)
	c := &console{}
	cmd.Stdout, cmd.Stderr = c, p.log
	process, err := cluster.Launch(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.process, p.console = process, c
	return nil
}

var errUnasked = errors.New("nobody asked it to")

// Check returns an error if a process that is up has ended by itself, or has a task that stopped.
func (p *Instance) Check() error {
	if p.process == nil {
		return nil
	}
	select {
	case <-p.process.Ended():
		err := p.process.Err()
		p.process = nil
		return fmt.Errorf("%s has ended by itself: %w", p.name, errors.Join(errUnasked, err))
	default:
	}
	if state, _ := p.Last(); state == "ERROR" {
		return fmt.Errorf("%s has a task that stopped", p.name)
	}
	return nil
}

// Last returns the last state and the last number of processed records that the process has printed in this life.
func (p *Instance) Last() (state string, records int64) { return p.console.last() }

// Freeze stops the process where it is, and Thaw lets it go on.
func (p *Instance) Freeze() error { return p.process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (p *Instance) Thaw() error { return p.process.Signal(syscall.SIGCONT) }

// Kill ends the process with SIGKILL, frozen or not, if it is up.
func (p *Instance) Kill() error {
	if p.process == nil {
		return nil
	}
	err := p.process.Kill()
	p.process = nil
	return err
}

// Terminate ends the process in order, with SIGTERM.
func (p *Instance) Terminate(ctx context.Context) error {
	if err := p.process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.process.Ended():
	case <-ctx.Done():
		return fmt.Errorf("%s does not stop: %w", p.name, ctx.Err())
	}
	err := p.process.Err()
	p.process = nil
	if err != nil {
		return fmt.Errorf("%s did not stop in order: %w", p.name, err)
	}
	return nil
}

// console understands what an instance prints.
type console struct {
	mu      sync.Mutex
	partial []byte // of a line
	state   string
	records int64
}

// Write takes what the process has printed. It never fails: a line that it does not know is somebody else's.
func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partial = append(c.partial, b...)
	for {
		line, rest, whole := bytes.Cut(c.partial, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		c.read(string(line))
		c.partial = rest
	}
}

func (c *console) read(line string) {
	if state, ok := strings.CutPrefix(line, "state: "); ok {
		c.state = state
	}
	text, ok := strings.CutPrefix(line, "processed ")
	if !ok {
		return
	}
	text, ok = strings.CutSuffix(text, " records")
	if n, err := strconv.ParseInt(text, 10, 64); ok && err == nil {
		c.records = n
	}
}

// last returns the last state and the last number of processed records.
func (c *console) last() (state string, records int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state, c.records
}
