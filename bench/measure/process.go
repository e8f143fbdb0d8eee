package measure

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	// logLines is how much of a failed process's log is in the error.
	logLines = 12
	// killWait is how long the output of a killed process is waited for: others may hold it.
	killWait = time.Second
)

// Self returns this program as a child, with settings in the environment variable name, for
// [Settings].
func Self(ctx context.Context, name string, settings any) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return Command(ctx, self, name, settings)
}

// Settings decodes what [Self] has put into the variable. It returns false in a program that was
// not started so.
func Settings(name string, into any) (child bool, err error) {
	encoded := os.Getenv(name)
	if encoded == "" {
		return false, nil
	}
	return true, json.Unmarshal([]byte(encoded), into)
}

// Report writes a line for [Process.Report]. A child calls it.
func Report(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// AwaitEnd returns when whoever started this process has ended its input, or is gone. A child calls
// it.
func AwaitEnd() { _, _ = io.Copy(io.Discard, os.Stdin) } // whatever ends it

// AwaitLine returns when [Process.Continue] is called. A child calls it.
func AwaitLine() error {
	var newline [1]byte
	_, err := io.ReadFull(os.Stdin, newline[:])
	return err
}

// Process is a child.
type Process struct {
	// Started is when it was started.
	Started time.Time

	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
	log   string
}

// Start starts the command, which ends with its context. What it writes to its error output goes to
// the file log. End or Kill has to be called.
func Start(cmd *exec.Cmd, log string) (*Process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the process has its own
	cmd.Stderr, cmd.WaitDelay = file, killWait
	p := &Process{cmd: cmd, log: log}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out, p.Started = bufio.NewReader(stdout), time.Now()
	return p, cmd.Start()
}

// Report waits for the next line and decodes it.
func (p *Process) Report(into any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no report: %w", err)
	}
	return json.Unmarshal(line, into)
}

// Continue lets a child go on that waits for it.
func (p *Process) Continue() error {
	_, err := io.WriteString(p.stdin, "\n")
	return err
}

// End ends the process's input and waits for its end, and for that of its output. An error has the
// end of its log.
func (p *Process) End() error {
	_ = p.stdin.Close() // Wait says whether the process is gone
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, Tail(p.log))
	}
	return nil
}

// Kill ends the process with SIGKILL and returns once it is gone. It fails if the process had ended
// by itself.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return errors.Join(err, p.End())
	}
	exit := p.cmd.Wait()
	if code := p.cmd.ProcessState.ExitCode(); code >= 0 { // -1 is an end by a signal
		return fmt.Errorf("the process had ended before it was killed, with %d: %w: %s", code, exit, Tail(p.log))
	}
	return nil
}

// CPU is the processor time of a process that has ended.
func (p *Process) CPU() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// PID is the number of the process, for [CPUTime].
func (p *Process) PID() int { return p.cmd.Process.Pid }

// PeakRSS is the largest resident memory of the process so far, in bytes: VmHWM of Linux, and 0
// elsewhere. The process has to live.
func (p *Process) PeakRSS() (int64, error) { return peakRSS(strconv.Itoa(p.cmd.Process.Pid)) }

// SelfPeakRSS is the largest resident memory of this process so far, as [Process.PeakRSS].
func SelfPeakRSS() (int64, error) { return peakRSS("self") }

func peakRSS(process string) (int64, error) {
	if runtime.GOOS != "linux" {
		return 0, nil
	}
	status, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("there is no VmHWM in the process's status")
}

// Tail returns the last lines of a log.
func Tail(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-logLines):], []byte("\n")))
}
