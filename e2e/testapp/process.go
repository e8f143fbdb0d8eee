//go:build unix

package testapp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/onceward/onceward/e2e/instance"
)

// Process is one instance in a process of its own, which is started and ended any number of times.
// One goroutine at a time may call its methods, except for Signal and Usage, which any goroutine
// may call at any time.
type Process struct {
	// Program is the path of a program that is [Program].
	Program string
	Flags   Flags
	// Env is added to the environment.
	Env []string
	// Lines gets what the instance prints. A goroutine of the process calls it.
	Lines func(Line)
	// LogPath is the file with the logs of all incarnations.
	LogPath string

	mu   sync.Mutex // guards life for Signal and Usage
	life *life      // nil while it is down
}

type life struct {
	*cluster.Process
	cmd *exec.Cmd
}

// Start begins a life.
func (p *Process) Start() error {
	cmd, err := measure.Command(context.Background(), p.Program, instance.SettingsVariable, p.Flags) // Kill ends it, not a context
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
	cmd.Stdout, cmd.Stderr = &lineReader{take: p.Lines}, logFile
	if _, err := cmd.StdinPipe(); err != nil { // open for as long as this process lives
		return err
	}
	started, err := cluster.Launch(cmd)
	if err != nil {
		return err
	}
	p.set(&life{started, cmd})
	return nil
}

func (p *Process) set(l *life) {
	p.mu.Lock()
	p.life = l
	p.mu.Unlock()
}

// Up reports whether the process was started, and not ended by one of these methods since.
func (p *Process) Up() bool { return p.life != nil }

var errUnasked = errors.New("it has ended by itself")

// Alive returns an error with the end of the log if the process has ended by itself. It is down
// then.
func (p *Process) Alive() error {
	if p.life == nil {
		return nil
	}
	select {
	case <-p.life.Ended():
		err := p.life.Err()
		p.set(nil)
		return fmt.Errorf("instance %s: %w\nend of its log:\n%s", p.Flags.Instance, errors.Join(errUnasked, err), p.LogTail())
	default:
		return nil
	}
}

// Kill ends the process with SIGKILL and returns once it is gone. It does nothing to one that is
// down.
func (p *Process) Kill() error {
	if err := p.Alive(); err != nil || p.life == nil {
		return err
	}
	err := p.life.Kill()
	p.set(nil)
	return err
}

// Freeze stops the process with SIGSTOP. Thaw lets it go on.
func (p *Process) Freeze() error { return p.tell(syscall.SIGSTOP) }

// Thaw is the opposite of Freeze.
func (p *Process) Thaw() error { return p.tell(syscall.SIGCONT) }

func (p *Process) tell(s os.Signal) error {
	if err := p.Alive(); err != nil || p.life == nil {
		return err
	}
	return p.life.Signal(s)
}

// Signal sends a signal to the process and reports whether there was one to get it.
func (p *Process) Signal(s os.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life != nil && p.life.Signal(s) == nil
}

// stopMax is how long an orderly stop may take: 30 s of the runtime's own where the cluster does
// not answer, and what a loaded machine adds.
const stopMax = 90 * time.Second

// Stop ends the process in order and returns once it is gone. It does nothing to one that is down.
func (p *Process) Stop() error {
	if err := p.tell(syscall.SIGTERM); err != nil || p.life == nil {
		return err
	}
	late := time.NewTimer(stopMax)
	defer late.Stop()
	select {
	case <-p.life.Ended():
	case <-late.C:
		return errors.Join(fmt.Errorf("instance %s does not stop within %s\nend of its log:\n%s",
			p.Flags.Instance, stopMax, p.LogTail()), p.Kill())
	}
	err := p.life.Err()
	p.set(nil)
	if err != nil {
		return fmt.Errorf("instance %s did not stop in order: %w\nend of its log:\n%s", p.Flags.Instance, err, p.LogTail())
	}
	return nil
}

// Usage returns the resident memory in bytes and the number of open files, zeros while the process
// is down or where the system does not say.
func (p *Process) Usage() (resident int64, files int) {
	p.mu.Lock()
	l := p.life
	p.mu.Unlock()
	if l == nil || instance.Closed(l.Ended()) {
		return 0, 0
	}
	proc := filepath.Join("/proc", strconv.Itoa(l.cmd.Process.Pid))
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

// LogTail returns the end of the log of all incarnations.
func (p *Process) LogTail() string { return cluster.Tail(p.LogPath, 2<<10) }

// lineReader decodes the lines that it is given. It drops what is no [Line]: a process that is
// killed can leave half a line.
type lineReader struct {
	take func(Line) // may be nil
	rest []byte
}

func (r *lineReader) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	for {
		text, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		var l Line
		if r.take != nil && json.Unmarshal(text, &l) == nil {
			r.take(l)
		}
		r.rest = rest
	}
}
