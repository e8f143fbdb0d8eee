package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a child process that dies with this one where the system can arrange it, which is on
// Linux. Its methods may be called from any goroutine.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once the process is reaped
	err   error         // how it ended; read it only after ended is closed
}

// Launch starts cmd. Its one goroutine lives as long as the process, which the caller ends.
func Launch(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = dieWithParent(cmd.SysProcAttr)
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ties the parent-death signal to the thread that forked, not to the process.
		// Locked to this goroutine, the thread cannot end before the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Ended is closed once the process is gone and everything that it wrote has been passed on.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err returns how the process ended: nil for exit code 0. It is for callers that have seen Ended
// closed.
func (p *Process) Err() error { return p.err }

// Signal sends a signal to the process. It fails if the process is gone.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Pid returns the id of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Terminate asks the process to end and kills it if it has not done so after grace. It returns once
// the process is gone. The process alone is signalled, not a group: a broker starts no processes.
func (p *Process) Terminate(grace time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return p.Kill() // gone already, or a system without SIGTERM
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.ended:
		return nil
	case <-t.C:
		return p.Kill()
	}
}

// Kill ends the process without warning and returns once it is gone.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", p.cmd.Process.Pid, err)
	}
	<-p.ended
	return nil
}

// Tail returns the last lines of a log file, at most limit bytes of them, and "" if there is no
// such file. It is for messages: instead of what cannot be read it returns the reason.
func Tail(path string, limit int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	cut := false
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		_, err = f.Seek(-limit, io.SeekEnd)
		cut = err == nil
	}
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return fmt.Sprintf("(%s: %v)", path, err)
	}
	text := string(b)
	if cut {
		_, text, _ = strings.Cut(text, "\n") // the first line is most likely half a line
	}
	return strings.TrimRight(text, "\n")
}
