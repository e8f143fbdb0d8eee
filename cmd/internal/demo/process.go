package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/onceward/onceward/txn"
)

// Environment by which the drill talks to its pipeline process.
const (
	envBrokers = "ONCEWARD_DEMO_BROKERS"
	envState   = "ONCEWARD_DEMO_STATE"
)

// PipelineCommand is the argument that makes the program be the drill's pipeline.
const PipelineCommand = "demo-pipeline"

// process is the pipeline as the drill sees it: another process of the same program.
type process struct {
	brokers  []string
	stateDir string
	log      string
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	exited   chan error
}

// start runs the pipeline. It ends when its standard input does, so that it never outlives the
// drill.
func (p *process) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	logFile, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()
	p.cmd = exec.Command(self, PipelineCommand)
	p.cmd.Env = append(os.Environ(), envBrokers+"="+strings.Join(p.brokers, ","), envState+"="+p.stateDir)
	p.cmd.Stdout, p.cmd.Stderr = logFile, logFile
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting the pipeline: %w", err)
	}
	p.exited = make(chan error, 1)
	go func(cmd *exec.Cmd, exited chan<- error) { exited <- cmd.Wait() }(p.cmd, p.exited)
	return nil
}

// kill ends the process without any chance to react, and returns when it is gone.
func (p *process) kill() error {
	if p.cmd == nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	if werr := <-p.exited; werr == nil && err == nil {
		return errors.New("the pipeline had ended in order before it could be killed")
	}
	p.cmd = nil
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// alive returns an error if the process has ended by itself.
func (p *process) alive() error {
	select {
	case err := <-p.exited:
		p.cmd = nil
		return fmt.Errorf("the pipeline ended by itself: %w", errors.Join(err, errUnexpectedExit))
	default:
		return nil
	}
}

var errUnexpectedExit = errors.New("it was not asked to")

// stop asks the process to end and waits for it.
func (p *process) stop(ctx context.Context) error {
	if err := p.stdin.Close(); err != nil {
		return err
	}
	select {
	case err := <-p.exited:
		p.cmd = nil
		if err != nil {
			return fmt.Errorf("the pipeline did not end in order: %w", err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tail returns the end of the pipeline's log as an error.
func (p *process) tail() error {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Errorf("the pipeline's log cannot be read: %w", err)
	}
	lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
	if len(lines) > 15 {
		lines = lines[len(lines)-15:]
	}
	return fmt.Errorf("the last lines of the pipeline's log:\n%s", bytes.Join(lines, []byte("\n")))
}

// Pipeline is the pipeline process: it runs until its standard input ends.
func Pipeline(ctx context.Context) error {
	brokers, stateDir := os.Getenv(envBrokers), os.Getenv(envState)
	if brokers == "" || stateDir == "" {
		return fmt.Errorf("%s is started by the demo, not by hand", PipelineCommand)
	}
	t, err := Topology()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	app, err := txn.New(t, txn.Config{
		Brokers: strings.Split(brokers, ","), StateDir: stateDir, Logger: quiet{log.Handler()}.logger(),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the drill, however that ends
		cancel()
	}()
	return app.Run(ctx)
}

// quiet drops the warning for every dead letter: the drill makes thousands of them on purpose.
type quiet struct{ slog.Handler }

func (q quiet) logger() *slog.Logger { return slog.New(q) }

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "record dead-lettered" {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(as []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(as)} }
func (q quiet) WithGroup(name string) slog.Handler    { return quiet{q.Handler.WithGroup(name)} }

const pollEvery = 2 * time.Millisecond
