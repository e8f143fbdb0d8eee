package latency

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Config is one measurement of steady load. Topics named after Name are created, and left behind.
type Config struct {
	Brokers []string
	// Name is the application, and the start of its topics' names.
	Name       string
	Partitions int32
	// Rate is events per second. What is sent in the first Warmup does not count.
	Rate             int
	Warmup, Duration time.Duration
	// CommitIntervalMax is the application's, 0 for its default.
	CommitIntervalMax time.Duration
	// Dir takes state, log and, with Profile, a CPU profile of the application under load, app.pprof.
	Dir     string
	Profile bool
}

// Result is what a measurement has found.
type Result struct {
	Rate int `json:"rate"`
	// Latency is from the due time to the read_committed reader, Produce from the due time to the producer's acknowledgement.
	Latency Summary `json:"latency"`
	Produce Summary `json:"produce"`
	// LateMax is how much later than due the producer has sent at worst: a large one says that the machine could not keep up.
	LateMax time.Duration `json:"late_max_ns"`
	// Commits and Aborts are the application's rounds per second and in all.
	Commits float64 `json:"commits_per_second"`
	Aborts  int64   `json:"aborts"`
	// Cores is the processor time of the application per second.
	Cores      float64 `json:"app_cores"`
	LoadBefore string  `json:"load_before"`
	LoadAfter  string  `json:"load_after"`
}

// drainTimeout bounds the waits for the application to begin and to come to the end.
const drainTimeout = time.Minute

// Measure starts one instance, loads it, and returns the distribution of latencies.
func Measure(ctx context.Context, cfg Config) (result Result, err error) {
	topics, err := CreateTopics(ctx, cfg.Brokers, cfg.Name, cfg.Partitions)
	if err != nil {
		return Result{}, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return Result{}, err
	}
	s := Settings{
		Brokers: cfg.Brokers, Application: cfg.Name, Instance: "a", StateDir: filepath.Join(cfg.Dir, "state"), Topics: topics,
		CommitIntervalMax: cfg.CommitIntervalMax, Log: filepath.Join(cfg.Dir, "app.log"),
	}
	if cfg.Profile {
		s.CPUProfile = filepath.Join(cfg.Dir, "app.pprof")
		s.ProfileAfter, s.ProfileFor = cfg.Warmup, cfg.Duration/2
	}
	app := NewInstance(s)
	result = Result{Rate: cfg.Rate, LoadBefore: LoadAverage()}
	if err := app.Start(); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, app.Kill()) }()
	load, err := StartLoad(ctx, cfg.Brokers, topics, cfg.Rate)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, load.Close()) }()
	total := uint64(cfg.Rate) * uint64((cfg.Warmup+cfg.Duration)/time.Second)
	if err := load.Await(ctx, total); err != nil {
		return Result{}, fmt.Errorf("%w (see %s)", err, app.Settings.Log)
	}
	sorted, err := load.Reader.Latencies(uint64(cfg.Rate)*uint64(cfg.Warmup/time.Second), total)
	if err != nil {
		return Result{}, err
	}
	result.Latency, result.LoadAfter = Summarize(sorted), LoadAverage()
	lived := time.Since(app.Started).Seconds()
	status, err := app.Status(ctx)
	if err != nil {
		return Result{}, err
	}
	result.Commits, result.Aborts = float64(status.Totals.Commits)/lived, status.Totals.Aborts
	stop, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := errors.Join(load.Stop(), app.Stop(stop)); err != nil {
		return Result{}, err
	}
	result.Produce, result.LateMax = load.producerSummary()
	result.Cores = app.CPU.Seconds() / lived
	return result, nil
}

// String is the result in one block for people.
func (r Result) String() string {
	return fmt.Sprintf("latency  %s\nproduce  %s\n         %.0f commits/s, %d aborts, %.2f cores, producer at most %.1f ms late, "+
		"load %s -> %s", r.Latency, r.Produce, r.Commits, r.Aborts, r.Cores, ms(r.LateMax), r.LoadBefore, r.LoadAfter)
}
