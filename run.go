package onceward

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// The exit codes of [Run]. Those of the command are the same.
const (
	// ExitDone is that of a run that a signal has ended in order.
	ExitDone = 0
	// ExitFailed is that of a run that has failed and may work later: the brokers did not answer,
	// or a task has stopped.
	ExitFailed = 1
	// ExitUsage is that of a mistake in the topology or in the settings. The same program fails
	// again.
	ExitUsage = 2
	// ExitIntegrity is that of stored data that is damaged or contradicts itself. A restart does
	// not help.
	ExitIntegrity = 3
)

// Run builds a topology, runs it as one instance of its application until a SIGINT or SIGTERM, and
// returns the exit code of the process. It is the whole main function of a program that needs no
// other command:
//
//	func main() { os.Exit(onceward.Run(wordCount, txn.Config{Brokers: []string{"localhost:9092"}, StateDir: "state"})) }
//
// The first signal stops the instance in order: what is in progress is committed, and the other
// instances take over at once. A second signal ends the process. Run prints errors to the standard
// error, one line each; the log goes to [txn.Config].Logger.
//
// Package cmd/cli makes a program that has the commands of onceward as well. [txn.New] and
// [txn.App.Run] are the parts for programs with more needs, such as queries or an HTTP server of
// their own.
func Run(build func() (*topology.Topology, error), config txn.Config) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal has its usual effect
	err := run(ctx, build, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return ExitCode(err)
}

func run(ctx context.Context, build func() (*topology.Topology, error), config txn.Config) error {
	t, err := build()
	if err != nil {
		return err
	}
	app, err := txn.New(t, config)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}

// ExitCode returns the exit code that stands for an error of a topology's build, of txn.New or of
// txn.App.Run, or for nil. Programs with a main function of their own use it to tell an
// orchestrator whether a restart can help.
func ExitCode(err error) int {
	_, isBuild := errors.AsType[*topology.BuildError](err)
	_, isSetting := errors.AsType[*txn.ConfigError](err)
	failure, isRecord := errors.AsType[*topology.Failure](err)
	switch {
	case err == nil:
		return ExitDone
	case isBuild, isSetting, errors.Is(err, state.ErrForeign), errors.Is(err, state.ErrFormat):
		return ExitUsage
	case errors.Is(err, state.ErrCorrupt), errors.Is(err, state.ErrBase), errors.Is(err, txn.ErrIntegrity),
		isRecord && failure.Class == topology.Corruption:
		return ExitIntegrity
	}
	return ExitFailed
}
