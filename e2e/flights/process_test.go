package flights

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
)

// envPipeline makes the test binary the pipeline, with the settings that it holds.
const envPipeline = "ONCEWARD_FLIGHTS_PIPELINE"

// envLog is the level of the pipeline's log, such as DEBUG. The default is INFO.
const envLog = "ONCEWARD_TEST_LOG"

// settings are what the pipeline process is told.
type settings struct {
	Brokers     []string
	Prefix      string
	Application string
	StateDir    string
}

// runPipeline is the pipeline process. It ends in order at SIGTERM, and at once when its standard input ends,
// which is when the test process does, however that ends.
func runPipeline(encoded string) (exitCode int) {
	if err := pipeline(encoded); err != nil {
		fmt.Fprintln(os.Stderr, "pipeline:", err)
		return 1
	}
	return 0
}

func pipeline(encoded string) error {
	var s settings
	if err := json.Unmarshal([]byte(encoded), &s); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it, the parent is gone
		fmt.Fprintln(os.Stderr, "pipeline: the test is gone")
		os.Exit(1)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	p, err := New(s.Prefix)
	if err != nil {
		return err
	}
	var level slog.Level
	if text := os.Getenv(envLog); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("%s: %w", envLog, err)
		}
	}
	app, err := txn.New(p.Topology, txn.Config{
		Brokers: s.Brokers, StateDir: s.StateDir, Application: s.Application,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		return err
	}
	return app.Run(ctx)
}

// process is the pipeline as the scenario sees it. It is started and ended any number of times.
type process struct {
	settings settings
	logPath  string
	cmd      *exec.Cmd // nil while it is down
	stdin    io.Closer
	exited   chan error
}

func (p *process) start() error {
	encoded, err := json.Marshal(p.settings)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	logFile, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close() // the process has its own
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envPipeline+"="+string(encoded))
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.exited = cmd, make(chan error, 1)
	go func(exited chan<- error) { exited <- cmd.Wait() }(p.exited)
	return nil
}

// alive returns an error if the process has ended by itself.
func (p *process) alive() error {
	select {
	case err := <-p.exited:
		p.cmd = nil
		return fmt.Errorf("the pipeline has ended by itself: %w", errors.Join(errUnasked, err))
	default:
		return nil
	}
}

var errUnasked = errors.New("nobody asked it to")

// kill ends the process with SIGKILL and returns once it is gone. Killing one that is down does nothing.
func (p *process) kill() error {
	if p.cmd == nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	exit := <-p.exited
	code := p.cmd.ProcessState.ExitCode()
	p.cmd = nil
	if code >= 0 { // it is -1 for a process that a signal has ended
		return fmt.Errorf("the pipeline had ended before it was killed: %w", errors.Join(errUnasked, exit))
	}
	return err
}

// terminate ends the process in order, with SIGTERM.
func (p *process) terminate(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the pipeline: %w", err)
	}
	select {
	case err := <-p.exited:
		p.cmd = nil
		if err != nil {
			return fmt.Errorf("the pipeline did not stop in order: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the pipeline does not stop: %w", ctx.Err())
	}
}

// status asks the process; it fails while the process is not up yet.
func (p *process) status(ctx context.Context) (txn.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return txn.InstanceStatus(ctx, p.settings.StateDir)
}

// logTail returns the end of the log of all lives.
func (p *process) logTail() string { return cluster.Tail(p.logPath, 16<<10) }
