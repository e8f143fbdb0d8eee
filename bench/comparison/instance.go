package comparison

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/restoretime"
	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/txn"
)

// envInstance makes the program a candidate, with the settings that it holds.
const envInstance = "ONCEWARD_PEERS_INSTANCE"

// settings are what a candidate in Go is told.
type settings struct {
	Kind                 kind
	Brokers              []string
	Workload             string
	Application, In, Out string
	StateDir             string
	CacheBytes           int64
}

// report is the line that a candidate writes when it is asked. It says what only the candidate
// knows; Kafka Streams writes another one when it is running, which says nothing.
type report struct {
	// Contents are those of the stores of Kafka Streams.
	Contents []storeReport `json:"contents,omitempty"`
	// Totals are Onceward's.
	Totals *totals `json:"totals,omitempty"`
}

// storeReport is what a store of Kafka Streams holds. The digest is hexadecimal.
type storeReport struct {
	Store   string `json:"store"`
	Entries int64  `json:"entries"`
	Digest  string `json:"digest"`
}

// totals are what an instance of Onceward has counted.
type totals struct {
	Commits     int64 `json:"commits"`
	Aborts      int64 `json:"aborts"`
	DeadLetters int64 `json:"dead_letters"`
}

// RunInstance makes this program a candidate, here or of package restoretime, and exits, if a
// measurement has started it as such. A program that measures calls it first: they are the same
// executable.
func RunInstance() {
	restoretime.RunInstance()
	measure.Run(envInstance, settings.run)
}

// run is the life of an instance. It ends in order when its input does.
func (s settings) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch s.Kind {
	case kindOnceward:
		return s.onceward(ctx, stop)
	case kindLoop:
		go listen(stop, func() report { return report{} })
		return s.loop(ctx)
	default: // Kafka Streams is no program of Go
		return fmt.Errorf("there is no candidate %q in here", s.Kind)
	}
}

// listen answers each line of the input with a report, and ends the instance with its input.
func listen(end func(), answer func() report) {
	defer end()
	for measure.AwaitLine() == nil {
		if err := measure.Report(answer()); err != nil {
			return // the process is gone
		}
	}
}

// onceward runs the workload at the defaults of txn.Config.
func (s settings) onceward(ctx context.Context, end func()) error {
	w, err := workload.Find(s.Workload)
	if err != nil {
		return err
	}
	t, err := w.Topology(s.Application, workload.Topics{In: s.In, Out: s.Out, Dead: deadTopic(s.Application)})
	if err != nil {
		return err
	}
	app, err := txn.New(t, txn.Config{
		Brokers: s.Brokers, StateDir: s.StateDir, CacheBytes: s.CacheBytes, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	go listen(end, func() report {
		t := app.Status().Totals
		return report{Totals: &totals{Commits: t.Commits, Aborts: t.Aborts, DeadLetters: t.DeadLetters}}
	})
	return app.Run(ctx)
}

// deadTopic takes dead letters, of which there are none.
func deadTopic(application string) string { return application + "-dead" }
