package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// Flags are what an instance is told.
type Flags struct {
	Topology    string // "soak" or "copy"
	Brokers     string
	Application string
	Prefix      string
	StateDir    string
	Instance    string
	Workers     int
	// Session is the group's session timeout.
	Session time.Duration
	Remain  bool
	// Pace is the time that the copy takes for a record, RoundBytes and Interval what ends a round, 0 for the defaults.
	Pace       time.Duration
	RoundBytes int64
	Interval   time.Duration
	// Report is how often a Line is printed.
	Report time.Duration
	// Query adds the content of the stores to the lines, read as the application's queries read it.
	Query bool
}

// Register declares the flags.
func (f *Flags) Register(set *flag.FlagSet) {
	set.StringVar(&f.Topology, "topology", "soak", "soak or copy")
	set.StringVar(&f.Brokers, "brokers", "", "bootstrap brokers, host:port,...")
	set.StringVar(&f.Application, "application", "soak", "application id")
	set.StringVar(&f.Prefix, "prefix", "", "what the names of all topics begin with")
	set.StringVar(&f.StateDir, "state-dir", "", "state directory")
	set.StringVar(&f.Instance, "instance", "", "identity of the instance")
	set.IntVar(&f.Workers, "workers", 1, "goroutines that compute")
	set.DurationVar(&f.Session, "session", 6*time.Second, "session timeout")
	set.BoolVar(&f.Remain, "remain", false, "keep the membership at an orderly stop")
	set.DurationVar(&f.Pace, "pace", 0, "time per record of the copy")
	set.Int64Var(&f.RoundBytes, "round-bytes", 0, "bytes of output that end a round")
	set.DurationVar(&f.Interval, "interval", 0, "longest time that a round is open")
	set.DurationVar(&f.Report, "report", 2*time.Second, "time between two lines of figures on standard output")
	set.BoolVar(&f.Query, "query", false, "add the content of the stores to the lines")
}

// Args returns the flags as they are given to a process.
func (f Flags) Args() []string {
	return []string{
		"-topology=" + f.Topology, "-brokers=" + f.Brokers, "-application=" + f.Application, "-prefix=" + f.Prefix,
		"-state-dir=" + f.StateDir, "-instance=" + f.Instance, "-workers=" + strconv.Itoa(f.Workers),
		"-session=" + f.Session.String(), "-remain=" + strconv.FormatBool(f.Remain), "-pace=" + f.Pace.String(),
		"-round-bytes=" + strconv.FormatInt(f.RoundBytes, 10), "-interval=" + f.Interval.String(), "-report=" + f.Report.String(),
		"-query=" + strconv.FormatBool(f.Query),
	}
}

// Line is what an instance prints, as JSON.
type Line struct {
	Goroutines int           `json:"goroutines"`
	Heap       uint64        `json:"heap"` // bytes in use
	Totals     txn.Totals    `json:"totals"`
	States     []check.State `json:"states,omitempty"`
}

// Main runs an instance: until SIGTERM, which ends it in order, or until its standard input ends, which is when the test is gone,
// however that came. It returns the exit code.
func Main(args []string) int {
	set := flag.NewFlagSet("soak application", flag.ContinueOnError)
	var f Flags
	f.Register(set)
	if err := set.Parse(args); err != nil {
		return 2
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it, the parent is gone
		fmt.Fprintln(os.Stderr, "the test is gone")
		os.Exit(1)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := f.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "application:", err)
		return 1
	}
	return 0
}

func (f *Flags) run(ctx context.Context) error {
	t, soak, err := f.topology()
	if err != nil {
		return err
	}
	app, err := txn.New(t, txn.Config{
		Brokers: strings.Split(f.Brokers, ","), StateDir: f.StateDir, Application: f.Application, Instance: f.Instance, Workers: f.Workers,
		SessionTimeout: f.Session, Remain: f.Remain, RoundBytesMax: f.RoundBytes, CommitIntervalMax: f.Interval, CacheBytes: 16 << 20,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	reported := make(chan error, 1)
	go func() { reported <- f.report(app, soak, ended) }()
	err = app.Run(ctx)
	close(ended)
	return errors.Join(err, <-reported)
}

func (f *Flags) topology() (*topology.Topology, Soak, error) {
	switch f.Topology {
	case "soak":
		s, err := NewSoak(f.Prefix)
		return s.Topology, s, err
	case "copy":
		t, err := NewCopy(f.Prefix, f.Pace)
		return t, Soak{}, err
	}
	return nil, Soak{}, fmt.Errorf("there is no topology %q", f.Topology)
}

// report prints lines until ended is closed, and then a last one.
func (f *Flags) report(app *txn.App, soak Soak, ended <-chan struct{}) error {
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
			if l.States, err = soak.query(app, f.Prefix); err != nil {
				return fmt.Errorf("query: %w", err)
			}
		}
		if err := out.Encode(l); err != nil {
			return err
		}
	}
	return nil
}
