//go:build unix

package flights

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/onceward/onceward/bench/measure"
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

// run is the pipeline process.
func (s settings) run() error {
	ctx, stop := measure.UntilTold()
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
	measure.Instance
}

func newProcess(s settings, logPath string) *process {
	return &process{s, measure.Instance{Name: "the pipeline", Variable: envPipeline, Told: s, LogPath: logPath}}
}

// status asks the process; it fails while the process is not up yet.
func (p *process) status(ctx context.Context) (txn.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return txn.InstanceStatus(ctx, p.settings.StateDir)
}

// logTail returns the end of the log of all lives.
func (p *process) logTail() string { return cluster.Tail(p.LogPath, 16<<10) }
