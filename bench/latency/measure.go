package latency

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Config is one measurement of steady load. Topics are created as far as they are not there, and
// left behind.
type Config struct {
	Brokers []string
	// Name is the application.
	Name string
	// In and Out are topics without records. Empty is the application's name with -in or -out
	// behind it.
	In, Out    string
	Partitions int32
	// Workload is a name of package workload; empty is [WorkloadDefault].
	Workload string
	// External says that the application is somebody else's and runs already: no instance is
	// started, and nothing is known of it but its output. CommitIntervalMax, Dir and StateDir say
	// nothing then.
	External bool
	// Rate is events per second. What is sent in the first Warmup does not count. Both times are
	// whole seconds.
	Rate             int
	Warmup, Duration time.Duration
	// CommitIntervalMax is the application's, 0 for its default.
	CommitIntervalMax time.Duration
	// Dir takes the application's log, app.log.
	Dir string
	// CPUProfile is a file for a profile of the application under load, empty for none.
	CPUProfile string
	// StateDir is the application's; empty is the directory state in Dir.
	StateDir string
	// InstanceArgs are the arguments with which this program calls [RunInstance].
	InstanceArgs []string
	// Histogram is a file for the distribution, empty for none.
	Histogram string
}

// ErrUnusable says that a configuration or its topics do not fit. Nothing was measured.
var ErrUnusable = errors.New("this cannot be measured")

func (cfg Config) validate() error {
	whole := func(d time.Duration) bool { return d >= time.Second && d%time.Second == 0 }
	if cfg.Rate < 1 || cfg.Partitions < 1 || !whole(cfg.Warmup) || !whole(cfg.Duration) {
		return fmt.Errorf("%w: rate and partitions are at least 1, warm-up and duration whole seconds of at least one", ErrUnusable)
	}
	if cfg.External && cfg.CPUProfile != "" {
		return fmt.Errorf("%w: only of an application that is started here there can be a CPU profile", ErrUnusable)
	}
	if _, err := findWorkload(cfg.Workload); err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return nil
}

// Result is what a measurement has found.
type Result struct {
	Workload string `json:"workload"`
	Rate     int    `json:"rate"`
	// Latency is from the due time to the read_committed reader, Produce from the due time to the
	// producer's acknowledgement.
	Latency Summary `json:"latency"`
	Produce Summary `json:"produce"`
	// LateMax is how much later than due the producer has sent at worst: a large one says that the
	// machine could not keep up.
	LateMax time.Duration `json:"late_max_ns"`
	// Commits and Aborts are the application's rounds per second and in all. Like Cores they are
	// zero for an external one.
	Commits float64 `json:"commits_per_second,omitempty"`
	Aborts  int64   `json:"aborts,omitempty"`
	// Cores is the processor time of the application per second.
	Cores      float64 `json:"app_cores,omitempty"`
	LoadBefore string  `json:"load_before"`
	LoadAfter  string  `json:"load_after"`
}

// drainTimeout bounds the waits for the application to begin and to come to the end.
const drainTimeout = time.Minute

// Measure starts one instance, unless the application is external, loads it, and returns the
// distribution of latencies.
func Measure(ctx context.Context, cfg Config) (result Result, err error) {
	if err := cfg.validate(); err != nil {
		return Result{}, err
	}
	topics := cfg.topics()
	if err := topics.Create(ctx, cfg.Brokers); err != nil {
		return Result{}, err
	}
	result = Result{Workload: cfg.Workload, Rate: cfg.Rate, LoadBefore: LoadAverage()}
	if result.Workload == "" {
		result.Workload = WorkloadDefault
	}
	var app *Instance // nil for an external one
	hint := ""
	if !cfg.External {
		if app, err = cfg.start(topics); err != nil {
			return Result{}, err
		}
		defer func() { err = errors.Join(err, app.Kill()) }()
		hint = fmt.Sprintf(" (see %s)", app.Settings.Log)
	}
	load, err := StartLoad(ctx, cfg.Brokers, topics, cfg.Rate)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, load.Close()) }()
	total := uint64(cfg.Rate) * uint64((cfg.Warmup+cfg.Duration)/time.Second)
	if err := load.Await(ctx, total); err != nil {
		return Result{}, fmt.Errorf("%w%s", err, hint)
	}
	sorted, err := load.Reader.Latencies(uint64(cfg.Rate)*uint64(cfg.Warmup/time.Second), total)
	if err != nil {
		return Result{}, err
	}
	result.Latency, result.LoadAfter = Summarize(sorted), LoadAverage()
	if cfg.Histogram != "" {
		if err := writeHistogram(cfg.Histogram, sorted); err != nil {
			return Result{}, err
		}
	}
	if err := result.end(ctx, load, app); err != nil {
		return Result{}, err
	}
	result.Produce, result.LateMax = load.producerSummary()
	return result, nil
}

// start starts the instance.
func (cfg Config) start(topics Topics) (*Instance, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	s := Settings{
		Brokers: cfg.Brokers, Application: cfg.Name, Instance: "a", StateDir: cfg.StateDir, Topics: topics, Workload: cfg.Workload,
		CommitIntervalMax: cfg.CommitIntervalMax, Log: filepath.Join(cfg.Dir, "app.log"),
	}
	if s.StateDir == "" {
		s.StateDir = filepath.Join(cfg.Dir, "state")
	}
	if cfg.CPUProfile != "" {
		s.CPUProfile = cfg.CPUProfile
		s.ProfileAfter, s.ProfileFor = cfg.Warmup, cfg.Duration/2
	}
	app := NewInstance(s, cfg.InstanceArgs...)
	return app, app.Start()
}

// end stops the load, and the instance if there is one, and notes what it has cost.
func (r *Result) end(ctx context.Context, load *Load, app *Instance) error {
	if app == nil {
		return load.Stop()
	}
	lived := time.Since(app.Started).Seconds()
	status, err := app.Status(ctx)
	if err != nil {
		return err
	}
	r.Commits, r.Aborts = float64(status.Totals.Commits)/lived, status.Totals.Aborts
	stop, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := errors.Join(load.Stop(), app.Stop(stop)); err != nil {
		return err
	}
	r.Cores = app.CPU.Seconds() / lived
	return nil
}

// String is the result in one block for people.
func (r Result) String() string {
	of := fmt.Sprintf("%.0f commits/s, %d aborts, %.2f cores", r.Commits, r.Aborts, r.Cores)
	if r.Cores == 0 {
		of = "an external application"
	}
	return fmt.Sprintf("latency  %s\nproduce  %s\n         %s, producer at most %.1f ms late, load %s -> %s", r.Latency, r.Produce, of,
		ms(r.LateMax), r.LoadBefore, r.LoadAfter)
}

func (cfg Config) topics() Topics {
	t := TopicsOf(cfg.Name, cfg.Partitions)
	if cfg.In != "" {
		t.In = cfg.In
	}
	if cfg.Out != "" {
		t.Out = cfg.Out
	}
	if cfg.External {
		t.Dead = "" // whether it has one is its own business
	}
	return t
}
