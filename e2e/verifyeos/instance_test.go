//go:build unix

package verifyeos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

// buildClient compiles the application.
func buildClient(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "eos")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path,
		"github.com/onceward/onceward/e2e/clients/eos").CombinedOutput()
	if err != nil {
		t.Fatalf("build the application: %v\n%s", err, out)
	}
	return path
}

// instance is one instance of the application. It is started and ended any number of times, always with the
// same name and state directory.
type instance struct {
	name    string
	binary  string
	args    []string
	logPath string
	process *cluster.Process // nil while it is down
	console *console         // of the current life
}

// start starts the process; it is not up yet when start returns.
func (i *instance) start() error {
	log, err := os.OpenFile(i.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(i.binary, i.args...)
	c := &console{}
	cmd.Stdout, cmd.Stderr = c, log
	process, err := cluster.Launch(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", i.name, err)
	}
	i.process, i.console = process, c
	return nil
}

// check returns an error if the process has ended by itself, or has a task that stopped.
func (i *instance) check() error {
	select {
	case <-i.process.Ended():
		err := i.process.Err()
		i.process = nil
		return fmt.Errorf("%s has ended by itself: %w", i.name, errors.Join(errUnasked, err))
	default:
	}
	if state, _ := i.console.last(); state == "ERROR" {
		return fmt.Errorf("%s has a task that stopped", i.name)
	}
	return nil
}

var errUnasked = errors.New("nobody asked it to")

// freeze stops the process where it is, and thaw lets it go on.
func (i *instance) freeze() error { return i.process.Signal(syscall.SIGSTOP) }
func (i *instance) thaw() error   { return i.process.Signal(syscall.SIGCONT) }

// kill ends the process with SIGKILL, frozen or not.
func (i *instance) kill() error {
	if i.process == nil {
		return nil
	}
	err := i.process.Kill()
	i.process = nil
	return err
}

// terminate ends the process in order, with SIGTERM.
func (i *instance) terminate(ctx context.Context) error {
	if err := i.process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", i.name, err)
	}
	select {
	case <-i.process.Ended():
	case <-ctx.Done():
		return fmt.Errorf("%s does not stop: %w", i.name, ctx.Err())
	}
	err := i.process.Err()
	i.process = nil
	if err != nil {
		return fmt.Errorf("%s did not stop in order: %w", i.name, err)
	}
	return nil
}

// logTail returns the end of the log of all lives.
func (i *instance) logTail() string { return cluster.Tail(i.logPath, 16<<10) }

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

func TestConsole(t *testing.T) {
	var c console
	for _, part := range []string{
		"state: STARTING\nstate: RUN", "NING\nprocessed 12", "34 records\nsomething else\nprocessed 5",
	} {
		if n, err := c.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	if state, records := c.last(); state != "RUNNING" || records != 1234 {
		t.Errorf("read %s and %d records", state, records)
	}
}
