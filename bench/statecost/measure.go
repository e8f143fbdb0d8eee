package statecost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/state/pebblestore"
)

// Config is one measurement.
type Config struct {
	// Dir takes databases and logs. It has to have room for the largest database, and for what is
	// added to it.
	Dir string
	// Sizes are the numbers of keys, ascending.
	Sizes []Keys
	// Warmup and Records are the records before and in each run, Repeats the runs of each kind.
	Warmup, Records int64
	Repeats         int
	// Workloads are what is measured at each size.
	Workloads []Workload
	// CacheBytes is the size of the block cache.
	CacheBytes int64
	// ReopenKeys is the size, one of Sizes, at which a process is killed Reopens times; 0 is none.
	ReopenKeys Keys
	Reopens    int
	// Quiet is how long no compaction may have ended for a grown database to be measured.
	Quiet time.Duration
	// Progress is told what is done; nil discards it.
	Progress io.Writer
}

func (c Config) validate() error {
	switch {
	case len(c.Sizes) == 0 || c.Sizes[0] < 1000 || !slices.IsSorted(c.Sizes):
		return fmt.Errorf("sizes %v: at least one, of 1000 keys or more, ascending", c.Sizes)
	case c.Quiet < time.Millisecond:
		return fmt.Errorf("%s without a compaction is not quiet", c.Quiet)
	case c.Records < 1 || c.Warmup < 0 || c.Repeats < 1 || len(c.Workloads) == 0:
		return errors.New("at least one record, repeat and workload")
	case c.ReopenKeys > 0 && (!slices.Contains(c.Sizes, c.ReopenKeys) || c.Reopens < 1):
		return fmt.Errorf("a reopen at %d keys, which must be one of the sizes %v", c.ReopenKeys, c.Sizes)
	}
	for _, w := range c.Workloads {
		if w.Round < 1 || w.Duplicates < 0 || w.Duplicates >= 1 || w.Distribution == Zipf && w.Exponent <= 1 {
			return fmt.Errorf("workload %+v: rounds of at least one record, a share of duplicates below 1, an exponent above 1", w)
		}
	}
	return nil
}

// Run is what one load has cost. Times are in nanoseconds per record.
type Run struct {
	Records int64 `json:"records"`
	// Record is Process and Apply and Flush together.
	Record  float64 `json:"record_ns"`
	Process float64 `json:"process_ns"`
	Apply   float64 `json:"apply_ns"`
	Flush   float64 `json:"flush_ns"`
	// RoundP50, RoundP99 and RoundMax are over the rounds, without the flush at the end.
	RoundP50 float64 `json:"round_p50_ns"`
	RoundP99 float64 `json:"round_p99_ns"`
	RoundMax float64 `json:"round_max_ns"`
	// PeakRSS and CPU are those of the process.
	PeakRSS int64                    `json:"peak_rss_bytes"`
	CPU     time.Duration            `json:"cpu_ns"`
	Store   pebblestore.Metrics      `json:"store"`
	Cache   pebblestore.CacheMetrics `json:"cache"`
	Load    string                   `json:"load"`
}

// Curve are the runs of a workload at one size.
type Curve struct {
	Keys     Keys     `json:"keys"`
	Workload Workload `json:"workload"`
	Runs     []Run    `json:"runs"`
}

// Reopen is one open after a kill.
type Reopen struct {
	// Took is the time until the task is there, Wall that from the start of the process.
	Took time.Duration `json:"took_ns"`
	Wall time.Duration `json:"wall_ns"`
	// Applied is the number of applied records that the process had reported when it was killed.
	// Kept is the number of records in the database. The difference is to be replayed.
	Applied int64 `json:"applied"`
	Kept    int64 `json:"kept"`
}

// Growth is how the database came to a size. Took is until its compactions had come to an end.
type Growth struct {
	Keys  Keys                `json:"keys"`
	Took  time.Duration       `json:"took_ns"`
	Store pebblestore.Metrics `json:"store"`
}

// Result is what a measurement has found.
type Result struct {
	Time       time.Time      `json:"time"`
	Host       string         `json:"host"`
	Limits     measure.Limits `json:"limits,omitempty"`
	CacheBytes int64          `json:"cache_bytes"`
	Growth     []Growth       `json:"growth"`
	Curves     []Curve        `json:"curves"`
	ReopenKeys Keys           `json:"reopen_keys,omitempty"`
	Reopens    []Reopen       `json:"reopens,omitempty"`
}

// measurement is one run of Measure.
type measurement struct {
	cfg    Config
	result Result
}

// Measure grows a database and measures it. See the package comment for the order of things.
func Measure(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.validate(); err != nil {
		return Result{}, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return Result{}, err
	}
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	m := &measurement{cfg: cfg, result: Result{
		Time: time.Now().UTC(), Host: latency.Host(), Limits: measure.LimitsNow(), CacheBytes: cfg.CacheBytes, ReopenKeys: cfg.ReopenKeys,
	}}
	if err := m.run(ctx); err != nil {
		return Result{}, fmt.Errorf("measuring the state: %w", err)
	}
	return m.result, nil
}

// snapshot is the directory of the database of a size.
func (m *measurement) snapshot(keys Keys) string { return filepath.Join(m.cfg.Dir, fmt.Sprint(keys)) }

func (m *measurement) run(ctx context.Context) (err error) {
	defer func() {
		for _, keys := range m.cfg.Sizes {
			err = errors.Join(err, os.RemoveAll(m.snapshot(keys)))
		}
	}()
	from := Keys(0)
	for _, keys := range m.cfg.Sizes {
		if err := m.grow(ctx, from, keys); err != nil {
			return err
		}
		from = keys
		for _, w := range m.cfg.Workloads {
			m.result.Curves = append(m.result.Curves, Curve{Keys: keys, Workload: w})
		}
	}
	for n := range m.cfg.Repeats {
		for i := range m.result.Curves {
			if err := m.load(ctx, &m.result.Curves[i], n == 0); err != nil {
				return err
			}
		}
	}
	for range m.cfg.Reopens {
		if err := m.reopen(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) say(format string, args ...any) {
	_, _ = fmt.Fprintf(m.cfg.Progress, format+"\n", args...) // who cannot be told misses nothing that is not in the result
}

// start starts a process and waits for its database.
func (m *measurement) start(ctx context.Context, s settings) (*measure.Process, opened, error) {
	s.CacheBytes = m.cfg.CacheBytes
	cmd, err := measure.Self(ctx, envInstance, s)
	if err != nil {
		return nil, opened{}, err
	}
	p, err := measure.Start(cmd, filepath.Join(m.cfg.Dir, string(s.Job)+".log"))
	if err != nil {
		return nil, opened{}, err
	}
	var o opened
	if err := p.Report(&o); err != nil {
		return nil, opened{}, errors.Join(err, p.End())
	}
	return p, o, nil
}

// grow makes the database of a size from a smaller one.
func (m *measurement) grow(ctx context.Context, from, keys Keys) error {
	path := m.snapshot(keys)
	if from > 0 {
		if err := link(m.snapshot(from), path); err != nil {
			return err
		}
	}
	p, _, err := m.start(ctx, settings{Job: grow, Path: path, From: from, Keys: keys, Quiet: m.cfg.Quiet})
	if err != nil {
		return err
	}
	g := Growth{Keys: keys}
	err = errors.Join(p.Report(&g.Store), p.End())
	g.Took = time.Since(p.Started)
	m.result.Growth = append(m.result.Growth, g)
	m.say("%d keys: %.0f MiB after %s", keys, measure.MiB(int64(g.Store.DiskBytes)), g.Took.Round(time.Millisecond))
	return err
}

// onCopy lets f work on a copy of the database of a size.
func (m *measurement) onCopy(keys Keys, f func(path string) error) (err error) {
	path := filepath.Join(m.cfg.Dir, "copy")
	defer func() { err = errors.Join(err, os.RemoveAll(path)) }()
	if err := link(m.snapshot(keys), path); err != nil {
		return err
	}
	return f(path)
}

// link copies a closed database. Tables never change, so the copy shares them.
func link(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if strings.HasSuffix(e.Name(), ".sst") || strings.HasSuffix(e.Name(), ".blob") {
			err = os.Link(source, target)
		} else {
			var content []byte
			if content, err = os.ReadFile(source); err == nil {
				err = os.WriteFile(target, content, 0o600)
			}
		}
		if err != nil {
			return fmt.Errorf("copying a database: %w", err)
		}
	}
	return nil
}

// load measures one run.
func (m *measurement) load(ctx context.Context, c *Curve, audit bool) error {
	return m.onCopy(c.Keys, func(path string) (err error) {
		r := Run{Load: latency.LoadAverage()}
		p, _, err := m.start(ctx, settings{
			Job: load, Path: path, Keys: c.Keys, Workload: c.Workload, Warmup: m.cfg.Warmup, Records: m.cfg.Records, Audit: audit,
		})
		if err != nil {
			return err
		}
		var w worked
		if err = p.Report(&w); err == nil {
			r.PeakRSS, err = p.PeakRSS()
		}
		if audit && err == nil {
			var passed bool
			err = errors.Join(p.Continue(), p.Report(&passed))
		}
		if err = errors.Join(err, p.End()); err != nil {
			return fmt.Errorf("%d keys, %s: %w", c.Keys, c.Workload.Distribution, err)
		}
		per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(w.Records) }
		r.Records, r.CPU, r.Store, r.Cache = w.Records, p.CPU(), w.Store, w.Cache
		r.Process, r.Apply, r.Flush, r.Record = per(w.Process), per(w.Apply), per(w.Flush), per(w.Process+w.Apply+w.Flush)
		last := len(w.Rounds) - 1
		r.RoundP50, r.RoundP99, r.RoundMax = w.Rounds[last/2], w.Rounds[last*99/100], w.Rounds[last]
		c.Runs = append(c.Runs, r)
		m.say("%d keys, %s: %.0f ns a record (%.0f processing, %.0f apply, %.0f flush), peak %.0f MiB", c.Keys, c.Workload.Distribution,
			r.Record, r.Process, r.Apply, r.Flush, measure.MiB(r.PeakRSS))
		return nil
	})
}

// reopen kills a process under load, and opens its database.
func (m *measurement) reopen(ctx context.Context) error {
	keys, w := m.cfg.ReopenKeys, m.cfg.Workloads[0]
	return m.onCopy(keys, func(path string) error {
		p, _, err := m.start(ctx, settings{Job: endure, Path: path, Keys: keys, Workload: w})
		if err != nil {
			return err
		}
		r := Reopen{}
		for r.Applied < m.cfg.Records {
			if err := p.Report(&r.Applied); err != nil {
				return errors.Join(err, p.End())
			}
		}
		if err := p.Kill(); err != nil {
			return err
		}
		p, o, err := m.start(ctx, settings{Job: reopen, Path: path, Keys: keys, Workload: w})
		if err != nil {
			return err
		}
		r.Took, r.Wall, r.Kept = o.Took, time.Since(p.Started), o.Applied
		var passed bool
		if err := errors.Join(p.Report(&passed), p.End()); err != nil {
			return fmt.Errorf("after a kill: %w", err)
		}
		m.result.Reopens = append(m.result.Reopens, r)
		m.say("%d keys, opened after a kill in %s, %d of %d records to be replayed", keys, r.Took.Round(time.Microsecond),
			max(r.Applied-r.Kept, 0), r.Applied)
		return nil
	})
}
