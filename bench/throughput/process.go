package throughput

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/onceward/onceward/bench/measure"
)

// envInstance makes the program one that runs a workload, with the configuration that it holds.
const envInstance = "ONCEWARD_THROUGHPUT_INSTANCE"

// RunInstance makes this program one that runs a workload, and exits, if [RunProcess] has started
// it as such. A program that calls RunProcess calls it first: they are the same executable.
func RunInstance() { measure.Run(envInstance, runInstance) }

// runInstance runs until the result is reported and taken, or whoever wants it is gone.
func runInstance(cfg RunConfig) error {
	ctx, cancel := context.WithCancel(context.Background())
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		defer cancel()
		measure.AwaitEnd()
	}()
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	r, err := Run(ctx, cfg)
	if err != nil {
		return err
	}
	if err := measure.Report(r); err != nil {
		return err
	}
	<-taken
	return nil
}

// RunProcess is [Run] in a process of its own, so that memory and processor time are the
// application's alone, and nothing is warm from the run before. The file log takes what it says. An
// error of the run comes back as text.
func RunProcess(ctx context.Context, cfg RunConfig, log string) (r Result, err error) {
	cmd, err := measure.Self(ctx, envInstance, cfg)
	if err != nil {
		return Result{}, err
	}
	p, err := measure.Start(cmd, log)
	if err != nil {
		return Result{}, err
	}
	err = p.Report(&r)
	return r, errors.Join(err, p.End())
}
