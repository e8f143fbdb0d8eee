package rebalance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/onceward/onceward/txn"
)

// envInstance makes the test binary an instance, with the settings that it holds.
const envInstance = "ONCEWARD_REBALANCE_INSTANCE"

// settings are what a process of its own is told.
type settings struct {
	Brokers                         []string
	Application, Instance, StateDir string
	Names                           names
	// Marker is created when a record with the value "block" is met, which is then never done with. Empty: such a record is counted.
	Marker string
}

// runInstance runs until it is killed or its standard input ends, which is when the test process does.
func runInstance(encoded string) (exitCode int) {
	var s settings
	err := json.Unmarshal([]byte(encoded), &s)
	if err == nil {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it, the parent is gone
			cancel()
		}()
		err = s.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "instance:", err)
		return 1
	}
	return 0
}

func (s settings) run(ctx context.Context) error {
	t, err := s.Names.build(1, s.Marker)
	if err != nil {
		return err
	}
	app, err := txn.New(t, txn.Config{
		Brokers: s.Brokers, Application: s.Application, Instance: s.Instance, StateDir: s.StateDir, Workers: 1,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return app.Run(ctx)
}

// process is an instance as the scenario sees it.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

func startProcess(t *testing.T, s settings) *process {
	t.Helper()
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), envInstance+"="+string(encoded))
	if os.Getenv("ONCEWARD_TEST_LOG") != "" {
		p.cmd.Stderr = os.Stderr
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.kill(t) })
	return p
}

// kill ends the process at once. Killing it again does nothing.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Error(err)
	}
	p.stdin.Close()
}
