package flights

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/txn"
)

// programPipeline is the pipeline as a process, which the scenario can kill.
const programPipeline = "pipeline"

func TestMain(m *testing.M) {
	instance.Main(m, instance.Programs{programPipeline: func() { measure.Run(instance.SettingsVariable, settings.run) }})
}

// settings are those of a pipeline process.
type settings struct {
	Brokers     []string
	Prefix      string
	Application string
	StateDir    string
}

// command returns the command of a life.
func (s settings) command(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd, err := measure.Command(context.Background(), instance.Program(t, programPipeline), instance.SettingsVariable, s) // the test ends it
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// run is the pipeline process. It is no instance.Application: one with failpoints purges
// repartition topics early, and the scenario reads such a topic in the end.
func (s settings) run() error {
	ctx, stop := measure.UntilTold()
	defer stop()
	p, err := newPipeline(s.Prefix)
	if err != nil {
		return err
	}
	app, err := txn.New(p.Topology, txn.Config{
		Brokers: s.Brokers, StateDir: s.StateDir, Application: s.Application, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return app.Run(ctx)
}
