package throughput

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/txn"
)

// RunConfig is one run of a workload. Settings of the application that are zero are its defaults.
type RunConfig struct {
	Brokers []string
	// Application is new, or has stopped before: then it goes on.
	Application string
	Workload    string
	// In is there, with at least Until records. Out is made if it is not there.
	In, Out  string
	Until    int64
	StateDir string

	Workers    int
	CacheBytes int64
	Logger     *slog.Logger `json:"-"`

	Profiles Profiles
	// NoCheck leaves the check out, for a run that is only profiled.
	NoCheck bool
}

// Result is what a run has found.
type Result struct {
	Workload    string `json:"workload"`
	Application string `json:"application"`
	Partitions  int    `json:"partitions"`
	Workers     int    `json:"workers"`
	Progress
	// Transactions and Aborts are those of the whole run.
	Transactions int64 `json:"transactions"`
	Aborts       int64 `json:"aborts"`
	// Bytes are those of the keys and values of the input, 0 if nothing was checked.
	Bytes int64 `json:"bytes,omitempty"`
	// RSSPeak is the largest resident memory of the process, 0 where that is not known.
	RSSPeak int64 `json:"rss_peak_bytes"`
	// StateBytes is the size of the state directory after the stop.
	StateBytes int64 `json:"state_bytes"`
	// Check is nil if nothing was checked.
	Check *Checked `json:"check,omitempty"`
}

// String is the result in a block for people.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %.0f records/s in the steady state, %.0f from the start (%d records in %.1f s, the first commit after %.1f s)\n",
		r.Workload, r.Steady.RecordsPerSecond, r.RecordsPerSecond, r.Records, r.Seconds, r.ToFirstCommit)
	fmt.Fprintf(&b, "%d partitions, %d workers, %d transactions, %d aborted\n", r.Partitions, r.Workers, r.Transactions, r.Aborts)
	fmt.Fprintf(&b, "%.2f s of processor time per million records in the steady state, %.0f MiB resident at most, %.1f MiB of state on disk\n",
		r.Steady.CPUSeconds/float64(max(r.Steady.Records, 1))*1e6, measure.MiB(r.RSSPeak), measure.MiB(r.StateBytes))
	if r.Brief() {
		fmt.Fprintf(&b, "the steady state was %.1f s long: too short for its rate to say anything\n", r.Steady.Seconds)
	}
	if c := r.Check; c != nil {
		b.WriteString(c.String())
	} else {
		b.WriteString("nothing was checked")
	}
	return b.String()
}

func deadTopic(application string) string { return application + "-dead" }

// Run runs a workload in this process until enough records are committed, stops it cleanly, and
// checks its output. It returns its result also with an [ErrWrong].
func Run(ctx context.Context, cfg RunConfig) (Result, error) {
	w, err := workload.Find(cfg.Workload)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	t, err := w.Topology(cfg.Application, workload.Topics{In: cfg.In, Out: cfg.Out, Dead: deadTopic(cfg.Application)})
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	app, err := txn.New(t, txn.Config{
		Brokers: cfg.Brokers, StateDir: cfg.StateDir, Workers: cfg.Workers, CacheBytes: cfg.CacheBytes, Logger: cfg.Logger,
	})
	if err != nil {
		return Result{}, err
	}
	partitions, err := prepare(ctx, cfg, w)
	if err != nil {
		return Result{}, err
	}
	r := Result{Workload: w.Name, Application: cfg.Application, Partitions: partitions, Workers: cfg.Workers}
	if r.Workers == 0 {
		r.Workers = runtime.GOMAXPROCS(0)
	}
	totals, err := r.measure(ctx, cfg, app)
	if err != nil {
		return Result{}, err
	}
	if r.StateBytes, err = sizeOf(cfg.StateDir); err != nil {
		return Result{}, err
	}
	if totals.DeadLetters > 0 {
		return r, fmt.Errorf("%w: %d records became dead letters", ErrWrong, totals.DeadLetters)
	}
	if cfg.NoCheck {
		return r, nil
	}
	checked, err := Check(ctx, CheckConfig{
		Brokers: cfg.Brokers, Workload: cfg.Workload, In: cfg.In, Out: cfg.Out, Until: cfg.Until, StateDir: cfg.StateDir,
		Application: cfg.Application,
	})
	if err != nil {
		return r, err
	}
	r.Check, r.Bytes = &checked, checked.Bytes*r.Records/max(checked.Inputs, 1)
	return r, nil
}

// prepare makes the topics of the output and returns the number of partitions.
func prepare(ctx context.Context, cfg RunConfig, w workload.Workload) (int, error) {
	c, err := connect(cfg.Brokers)
	if err != nil {
		return 0, err
	}
	defer c.close()
	partitions, err := c.partitions(ctx, cfg.In)
	if err != nil {
		return 0, err
	}
	if partitions == 0 {
		return 0, fmt.Errorf("%w: there is no topic %s; fill it before", ErrUnusable, cfg.In)
	}
	ends, err := c.ends(ctx, cfg.In)
	if err != nil {
		return 0, err
	}
	switch n := sum(ends); {
	case cfg.Until < 1 || n < cfg.Until:
		return 0, fmt.Errorf("%w: topic %s has %d records, and %d are to be processed", ErrUnusable, cfg.In, n, cfg.Until)
	case w.Shuffles && !cfg.NoCheck && n != cfg.Until:
		return 0, fmt.Errorf("%w: workload %s can only be checked when it has processed all of its input, which has %d records and not %d",
			ErrUnusable, w.Name, n, cfg.Until)
	}
	names := []string{cfg.Out, deadTopic(cfg.Application)}
	if w.Evidence {
		names = append(names, workload.EvidenceTopic(cfg.Out))
	}
	if err := create(ctx, cfg.Brokers, partitions, names...); err != nil {
		return 0, err
	}
	if !cfg.NoCheck {
		err = c.ownOutput(ctx, cfg, int(partitions))
	}
	return int(partitions), err
}

// ownOutput refuses an output that has records although the application has not committed anything
// yet: they come from another program, and the check would fail at the end.
func (c *cluster) ownOutput(ctx context.Context, cfg RunConfig, partitions int) error {
	committed, err := c.committed(ctx, cfg.Application, cfg.In, partitions)
	if err != nil || sum(committed) > 0 {
		return err
	}
	ends, err := c.dataEnds(ctx, cfg.Brokers, cfg.Out)
	if err == nil && sum(ends) > 0 {
		err = fmt.Errorf("%w: topic %s has records already, which are not those of application %s; name another one", ErrUnusable, cfg.Out,
			cfg.Application)
	}
	return err
}

// errEnded says that the application has ended by itself. The reason is beside it.
var errEnded = errors.New("the application has ended")

// measure runs the application and watches it.
func (r *Result) measure(ctx context.Context, cfg RunConfig, app *txn.App) (totals txn.Totals, err error) {
	profiles, err := cfg.Profiles.open()
	if err != nil {
		return totals, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	watching, ended := context.WithCancelCause(ctx)
	defer ended(nil)
	done := make(chan error, 1)
	go func() {
		err := app.Run(running)
		ended(errors.Join(errEnded, err))
		done <- err
	}()
	r.Progress, err = Watch(watching, WatchConfig{
		Brokers: cfg.Brokers, Application: cfg.Application, In: cfg.In, Out: cfg.Out, Until: cfg.Until, Usage: selfUsage,
		Steady: profiles.begin,
	})
	if err != nil && watching.Err() != nil {
		err = context.Cause(watching) // a request that was given up does not say why
	}
	totals = app.Status().Totals
	if err == nil {
		r.Transactions, r.Aborts = totals.Commits, totals.Aborts
		r.RSSPeak, err = measure.SelfPeakRSS()
	}
	err = errors.Join(err, profiles.close())
	stop()
	if end := <-done; !errors.Is(err, errEnded) {
		err = errors.Join(err, end)
	}
	return totals, err
}

func selfUsage() (Usage, error) {
	cpu, err := measure.SelfCPU()
	return Usage{CPU: cpu}, err
}

// sizeOf sums the files of a directory.
func sizeOf(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}
