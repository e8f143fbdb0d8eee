//go:build unix

package crash

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// builds holds the application with failpoints, once somebody has asked for it. All tests share it, because linking it takes seconds.
type builds struct {
	dir  string // made and removed by TestMain
	once sync.Once
	err  error
}

var built builds

// build returns the path of the application with failpoints.
func build(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(built.dir, "app")
	built.once.Do(func() {
		cmd := exec.Command("go", "build", "-tags", "onceward_failpoints", "-o", path, "./app") // outlives the test that asks first
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("building the application: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return path
}

// points asks the application for the names of its failpoints.
func points(t *testing.T, path string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = append(os.Environ(), "ONCEWARD_FAILPOINT=list")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// process is a life of the application outside of this process.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	log   *logBuffer
	// hits are closed, one after the other, when the lines that are waited for have appeared.
	hits   []chan struct{}
	exited chan struct{}
	err    error // valid once exited is closed
}

// logBuffer keeps what a life has logged.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// startProcess runs the application with points armed. The lines tell of hits.
func startProcess(t *testing.T, path string, s Settings, arm string, lines ...string) *process {
	t.Helper()
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(path), log: &logBuffer{}, exited: make(chan struct{})}
	for range lines {
		p.hits = append(p.hits, make(chan struct{}))
	}
	p.cmd.Env = append(os.Environ(), "ONCEWARD_CRASH_SETTINGS="+string(encoded), "ONCEWARD_FAILPOINT="+arm)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		next := 0
		for log := bufio.NewScanner(stderr); log.Scan(); {
			fmt.Fprintln(p.log, log.Text())
			if next < len(lines) && log.Text() == lines[next] {
				close(p.hits[next])
				next++
			}
		}
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails if it is gone, as it should be
		<-p.exited
		_ = p.stdin.Close()
	})
	return p
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// wait waits for the end.
func (p *process) wait() error {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.err
	case <-time.After(patience):
		p.t.Fatal("the process does not end")
		return nil
	}
}

// killed waits for the end and fails the test unless SIGKILL was the reason.
func (p *process) killed() {
	p.t.Helper()
	var exit *exec.ExitError
	err := p.wait()
	if status, ok := waitStatus(err, &exit); !ok || status.Signal() != syscall.SIGKILL {
		p.t.Fatalf("the process was to be killed and ended with %v", err)
	}
}

func waitStatus(err error, exit **exec.ExitError) (syscall.WaitStatus, bool) {
	if !errors.As(err, exit) {
		return 0, false
	}
	status, ok := (*exit).Sys().(syscall.WaitStatus)
	return status, ok && status.Signaled()
}
