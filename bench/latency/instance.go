package latency

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
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/onceward/onceward/txn"
)

// envInstance makes the program an instance of the application, with the settings that it holds.
const envInstance = "ONCEWARD_LATENCY_INSTANCE"

// Settings are what one instance is told. The zero value of a setting is the application's default.
type Settings struct {
	Brokers     []string
	Application string
	Instance    string
	StateDir    string
	Topics      Topics
	// Workload is a name of package workload; empty is [WorkloadDefault].
	Workload string
	// Remain keeps the membership at a stop in order.
	Remain             bool
	SessionTimeout     time.Duration
	TransactionTimeout time.Duration
	CommitIntervalMax  time.Duration
	// Log is the file that the instance appends its log to.
	Log string
	// CPUProfile is a file for a CPU profile of ProfileFor, begun ProfileAfter the start.
	CPUProfile               string
	ProfileAfter, ProfileFor time.Duration
}

// RunInstance makes this program an instance, and exits, if another one has started it as such. A program that starts instances calls
// it first: they are the same executable.
func RunInstance() {
	encoded := os.Getenv(envInstance)
	if encoded == "" {
		return
	}
	if err := runInstance(encoded); err != nil {
		fmt.Fprintln(os.Stderr, "instance:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runInstance(encoded string) (err error) {
	var s Settings
	if err := json.Unmarshal([]byte(encoded), &s); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it, the parent is gone
		fmt.Fprintln(os.Stderr, "instance: the measurement is gone")
		os.Exit(1)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	t, err := Topology(s.Application, s.Workload, s.Topics)
	if err != nil {
		return err
	}
	app, err := txn.New(t, txn.Config{
		Brokers: s.Brokers, StateDir: s.StateDir, Instance: s.Instance, Remain: s.Remain, SessionTimeout: s.SessionTimeout,
		TransactionTimeout: s.TransactionTimeout, CommitIntervalMax: s.CommitIntervalMax,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	if s.CPUProfile != "" {
		profiled := make(chan error, 1)
		go func() { profiled <- profile(ctx, s) }()
		defer func() { err = errors.Join(err, <-profiled) }()
	}
	return app.Run(ctx)
}

// profile writes a profile, shorter if ctx ends before.
func profile(ctx context.Context, s Settings) error {
	select {
	case <-ctx.Done():
		return nil // stopped before
	case <-time.After(s.ProfileAfter):
	}
	f, err := os.Create(s.CPUProfile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	select {
	case <-ctx.Done():
	case <-time.After(s.ProfileFor):
	}
	pprof.StopCPUProfile()
	return f.Close()
}

// Instance is one process of the application. It can be started again and again, with the same identity and state.
type Instance struct {
	Settings Settings
	// Args are the arguments of the process, for a program that has to be told to call [RunInstance].
	Args []string
	// Started is when the process of the current life was started.
	Started time.Time
	// CPU is the processor time of the lives that have ended.
	CPU time.Duration

	cmd    *exec.Cmd // nil while it is down
	stdin  io.Closer
	exited chan error
}

// Start starts the process. It returns before the instance is ready for anything.
func (i *Instance) Start() error {
	encoded, err := json.Marshal(i.Settings)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(i.Settings.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(self, i.Args...)
	cmd.Env = append(os.Environ(), envInstance+"="+string(encoded))
	cmd.Stdout, cmd.Stderr = log, log
	if i.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	i.Started = time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	i.cmd, i.exited = cmd, make(chan error, 1)
	go func(exited chan<- error) { exited <- cmd.Wait() }(i.exited)
	return nil
}

// Kill ends the process with SIGKILL and returns once it is gone. It does nothing to one that is down.
func (i *Instance) Kill() error {
	if i.cmd == nil {
		return nil
	}
	err := i.cmd.Process.Kill()
	exit := <-i.exited
	code := i.reaped()
	if code >= 0 { // -1 is an end by a signal
		return fmt.Errorf("instance %s had ended before it was killed, with %d: %w (see %s)", i.Settings.Instance, code,
			errors.Join(err, exit), i.Settings.Log)
	}
	return err
}

// Stop asks the process to end in order and returns once it is gone. It does nothing to one that is down.
func (i *Instance) Stop(ctx context.Context) error {
	if i.cmd == nil {
		return nil
	}
	if err := i.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping instance %s: %w", i.Settings.Instance, err)
	}
	select {
	case err := <-i.exited:
		i.reaped()
		if err != nil {
			return fmt.Errorf("instance %s did not stop in order: %w (see %s)", i.Settings.Instance, err, i.Settings.Log)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("instance %s does not stop: %w", i.Settings.Instance, ctx.Err())
	}
}

func (i *Instance) reaped() (code int) {
	s := i.cmd.ProcessState
	i.CPU += s.UserTime() + s.SystemTime()
	i.cmd = nil
	return s.ExitCode()
}

// Ended returns an error if the process has ended by itself.
func (i *Instance) Ended() error {
	if i.cmd == nil {
		return nil
	}
	select {
	case err := <-i.exited:
		return fmt.Errorf("instance %s has ended by itself with %d: %w (see %s)", i.Settings.Instance, i.reaped(), err, i.Settings.Log)
	default:
		return nil
	}
}

// Status asks the process; it fails while it is not up yet.
func (i *Instance) Status(ctx context.Context) (txn.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return txn.InstanceStatus(ctx, i.Settings.StateDir)
}
