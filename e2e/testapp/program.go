package testapp

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// BrokenDedupe is the one mechanism of the topology itself that can be broken: see [Parts].
const BrokenDedupe = "dedupe"

// The values of [Flags].Topology.
const (
	AccountsTopology = "accounts"
	CopyTopology     = "copy"
)

// Flags are the settings of an instance that is a process of its own.
type Flags struct {
	Topology    string // [AccountsTopology] or [CopyTopology]
	Brokers     string
	Application string
	Prefix      string
	StateDir    string
	Instance    string
	Workers     int
	// Session is the group's session timeout.
	Session time.Duration
	Remain  bool
	// Pace is the time that the copy takes for a record, RoundBytes and Interval what ends a round,
	// 0 for the defaults.
	Pace       time.Duration
	RoundBytes int64
	Interval   time.Duration
	// Report is how often a Line is printed.
	Report time.Duration
	// Query adds the content of the stores to the lines, read as the application's queries read it.
	Query bool
	// Broken is what does not work, "" for nothing: [BrokenDedupe], or a mechanism of
	// txn.Config.WithFailpoints.
	Broken string
}

// Line is what an instance prints, as JSON.
type Line struct {
	Goroutines int           `json:"goroutines"`
	Heap       uint64        `json:"heap"` // bytes in use
	Totals     txn.Totals    `json:"totals"`
	States     []check.State `json:"states,omitempty"`
}

// Program is the program of a [Process], for package instance's Programs. Its [Flags] are in
// [instance.SettingsVariable].
func Program() {
	measure.Run(instance.SettingsVariable, Flags.run)
	fmt.Fprintln(os.Stderr, "instance: there are no settings in", instance.SettingsVariable)
	os.Exit(2)
}

// run runs an instance until it is told to end: see bench/measure.
func (f Flags) run() error {
	ctx, stop := measure.UntilTold()
	defer stop()
	t, accounts, err := f.topology()
	if err != nil {
		return err
	}
	cfg := txn.Config{
		Brokers: strings.Split(f.Brokers, ","), StateDir: f.StateDir, Application: f.Application, Instance: f.Instance, Workers: f.Workers,
		SessionTimeout: f.Session, Remain: f.Remain, RoundBytesMax: f.RoundBytes, CommitIntervalMax: f.Interval, CacheBytes: 16 << 20,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if f.Broken != "" && f.Broken != BrokenDedupe {
		if cfg, err = instance.Break(cfg, f.Broken); err != nil {
			return err
		}
	}
	app, err := txn.New(t, cfg)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	reported := make(chan error, 1)
	go func() { reported <- f.report(app, accounts, ended) }()
	err = app.Run(ctx)
	close(ended)
	return errors.Join(err, <-reported)
}

func (f Flags) topology() (*topology.Topology, Accounts, error) {
	switch f.Topology {
	case AccountsTopology:
		parts := Everything
		parts.LeakDuplicates = f.Broken == BrokenDedupe
		a, err := NewAccounts(f.Application, f.Prefix, parts)
		return a.Topology, a, err
	case CopyTopology:
		t, err := NewCopy(f.Prefix, f.Pace)
		return t, Accounts{}, err
	}
	return nil, Accounts{}, fmt.Errorf("there is no topology %q", f.Topology)
}

// report prints lines until ended is closed, and then a last one.
func (f Flags) report(app *txn.App, accounts Accounts, ended <-chan struct{}) error {
	tick := time.NewTicker(f.Report)
	defer tick.Stop()
	out := json.NewEncoder(os.Stdout)
	for last := false; !last; {
		select {
		case <-tick.C:
		case <-ended:
			last = true
		}
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		l := Line{Goroutines: runtime.NumGoroutine(), Heap: mem.HeapInuse, Totals: app.Status().Totals}
		if f.Query && !last {
			var err error
			if l.States, err = accounts.Query(app); err != nil {
				return fmt.Errorf("query: %w", err)
			}
		}
		if err := out.Encode(l); err != nil {
			return err
		}
	}
	return nil
}
