// Package program is the main of the applications that tests run in processes of their own, from programs that are built for it.
//
// A program gets its settings, as JSON, in the environment variable [Variable]; bench/measure's Command puts them there. It logs on its
// standard error, where the last line tells what has ended it, begun with "instance: ". SIGTERM ends it in order; when its standard
// input ends it dies at once: whoever has started it is gone.
// Built with the tag onceward_failpoints it fails as [failpoints.Variable] says.
//
// It is apart from package instance so that what is built has neither brokers nor tests in it.
package program

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/failpoints"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// Variable holds the settings of a program.
const Variable = "ONCEWARD_PROGRAM_SETTINGS"

// Settings are one instance of an application.
type Settings interface {
	Topology() (*topology.Topology, error)
	Config() txn.Config
}

// Main runs the instance that the settings in [Variable] are, and exits.
func Main[S Settings]() {
	if failpoints.List() {
		os.Exit(0)
	}
	measure.Run(Variable, run[S])
	fmt.Fprintln(os.Stderr, "instance: there are no settings in", Variable)
	os.Exit(2)
}

func run[S Settings](s S) error {
	t, err := s.Topology()
	if err != nil {
		return err
	}
	cfg, err := failpoints.Config(s.Config())
	if err != nil {
		return err
	}
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	app, err := txn.New(t, cfg)
	if err != nil {
		return err
	}
	ctx, stop := measure.UntilTold()
	defer stop()
	return app.Run(ctx)
}
