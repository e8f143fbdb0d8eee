package rebalance_test

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/instance"
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

// run is the life of such a process.
func (s settings) run() error {
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
	ctx, stop := measure.UntilTold()
	defer stop()
	return app.Run(ctx)
}

func startProcess(t *testing.T, s settings) *instance.Process {
	t.Helper()
	cmd, err := measure.Self(context.Background(), envInstance, s)
	if err != nil {
		t.Fatal(err)
	}
	return instance.Launch(t, cmd, instance.NewLog(t, "the process of "+s.Instance))
}
