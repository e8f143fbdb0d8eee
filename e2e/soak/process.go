package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/soak/app"
)

// envInstance holds what an instance is told.
const envInstance = "ONCEWARD_SOAK_INSTANCE"

// Instance makes the process an instance of the application and exits, if it was started as one. Programs and tests that use this
// package call it first.
func Instance() { measure.Run(envInstance, app.Flags.Run) }

// Process is one instance, which is started and ended any number of times. Its methods are called from one goroutine at a time, but for
// Usage.
type Process struct {
	Flags app.Flags
	// Env is added to the environment.
	Env []string
	// Lines gets what the instance prints. It is called on a goroutine of the process.
	Lines func(app.Line)
	// LogPath is where the logs of all lives go.
	LogPath string

	cmd   *exec.Cmd // nil while it is down
	stdin io.Closer
	ended chan struct{}
	exit  error

	mu  sync.Mutex
	pid int // 0 while it is down
}

// Start begins a life.
func (p *Process) Start() error {
	cmd, err := measure.Self(context.Background(), envInstance, p.Flags)
	if err != nil {
		return err
	}
	logFile, err := os.OpenFile(p.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close() // the process has its own
	if _, err := fmt.Fprintf(logFile, "--- %s: a life begins\n", time.Now().Format(time.TimeOnly)); err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, p.Env...)
	cmd.Stderr = logFile
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	p.setPid(cmd.Process.Pid)
	go func(ended chan struct{}) {
		p.read(stdout)
		p.exit = cmd.Wait()
		p.setPid(0)
		close(ended)
	}(p.ended)
	return nil
}

// read takes lines until the process is gone. A killed one can leave half a line.
func (p *Process) read(stdout io.Reader) {
	lines := bufio.NewReader(stdout)
	for {
		text, err := lines.ReadBytes('\n')
		var l app.Line
		if json.Unmarshal(text, &l) == nil && p.Lines != nil {
			p.Lines(l)
		}
		if err != nil {
			return
		}
	}
}

func (p *Process) setPid(pid int) {
	p.mu.Lock()
	p.pid = pid
	p.mu.Unlock()
}

// Up reports whether the process was started and not ended by this package.
func (p *Process) Up() bool { return p.cmd != nil }

var errUnasked = errors.New("it has ended by itself")

// Alive returns an error with the end of the log if the process has ended without having been asked to. It is down then.
func (p *Process) Alive() error {
	if p.cmd == nil {
		return nil
	}
	select {
	case <-p.ended:
		p.cmd = nil
		return fmt.Errorf("instance %s: %w\nend of its log:\n%s", p.Flags.Instance, errors.Join(errUnasked, p.exit), p.LogTail())
	default:
		return nil
	}
}

// Kill ends the process with SIGKILL and returns once it is gone.
func (p *Process) Kill() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.Alive(); err != nil {
		return err
	}
	err := p.cmd.Process.Kill()
	<-p.ended
	p.cmd = nil
	return err
}

// Freeze stops the process with SIGSTOP; Thaw lets it go on.
func (p *Process) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw is the opposite of Freeze.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

// hold stops the process where it stands, whoever has it, and reports whether there was one to stop; let is its opposite. Unlike the
// others they may be called while another goroutine uses the process.
func (p *Process) hold() bool { return p.tell(syscall.SIGSTOP) }

func (p *Process) let() { p.tell(syscall.SIGCONT) } // if it is gone meanwhile, there is nothing to let go on

func (p *Process) tell(s syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid != 0 && syscall.Kill(p.pid, s) == nil
}

func (p *Process) signal(s os.Signal) error {
	if err := p.Alive(); err != nil {
		return err
	}
	if p.cmd == nil {
		return nil
	}
	return p.cmd.Process.Signal(s)
}

// stopMax is how long an orderly stop may take: 30 s of the runtime's own where the cluster does not answer, and what a loaded machine
// adds.
const stopMax = 90 * time.Second

// Stop ends the process in order and returns once it is gone.
func (p *Process) Stop() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.NewTimer(stopMax)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
		return errors.Join(fmt.Errorf("instance %s does not stop within %s\nend of its log:\n%s",
			p.Flags.Instance, stopMax, p.LogTail()), p.Kill())
	}
	p.cmd = nil
	if p.exit != nil {
		return fmt.Errorf("instance %s did not stop in order: %w\nend of its log:\n%s", p.Flags.Instance, p.exit, p.LogTail())
	}
	return nil
}

// Usage returns the resident memory in bytes and the number of open files, zeros while it is down or where the system does not say.
func (p *Process) Usage() (resident int64, files int) {
	p.mu.Lock()
	pid := p.pid
	p.mu.Unlock()
	if pid == 0 {
		return 0, 0
	}
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	if text, err := os.ReadFile(filepath.Join(proc, "statm")); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64) // the kernel's own number
			resident = pages * int64(os.Getpagesize())
		}
	}
	if entries, err := os.ReadDir(filepath.Join(proc, "fd")); err == nil {
		files = len(entries)
	}
	return resident, files
}

// LogTail returns the end of the log of all lives.
func (p *Process) LogTail() string { return cluster.Tail(p.LogPath, 2<<10) }
