package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a child process that dies with this one where the system can arrange it (see dieWithParent).
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once the process is reaped
	err   error         // how it ended; read it only after ended is closed
}

// launch starts cmd. Its one goroutine lives as long as the process.
func launch(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = dieWithParent()
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ties the parent-death signal to the thread that forked, not to the process. Locked to
		// this goroutine, the thread cannot end before the child does.
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

// terminate asks the process to end and kills it if it has not done so after grace. It returns once the
// process is gone. The process alone is signalled, not a group: a broker starts no processes.
func (p *process) terminate(grace time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return p.kill() // gone already, or a system without SIGTERM
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.ended:
		return nil
	case <-t.C:
		return p.kill()
	}
}

// kill ends the process without warning and returns once it is gone.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", p.cmd.Process.Pid, err)
	}
	<-p.ended
	return nil
}
