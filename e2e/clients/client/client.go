package client

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// Application is what an instance runs.
type Application struct {
	// Name is that of the program, for its messages.
	Name string
	// Flags declares flags of the application's own; nil if it has none.
	Flags func(flags *flag.FlagSet)
	// Topology is called once, after the flags are parsed.
	Topology func() (*topology.Topology, error)
}

// Main runs the program and returns its exit code.
func Main(a Application) (code int) {
	s, err := parse(a, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", a.Name, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, a, s, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", a.Name, err)
		return 1
	}
	return 0
}

// settings are the flags that all applications have.
type settings struct {
	brokers, instance, stateDir string
	sessionTimeout              time.Duration
	logLevel                    slog.Level
}

func parse(a Application, args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet(a.Name, flag.ContinueOnError)
	flags.StringVar(&s.brokers, "brokers", "", "brokers to start from, host:port with commas between them")
	flags.StringVar(&s.instance, "instance", "", "name of this instance, the same after every restart")
	flags.StringVar(&s.stateDir, "state-dir", "", "directory of this instance's state")
	flags.DurationVar(&s.sessionTimeout, "session-timeout", 10*time.Second,
		"how long the group waits for an instance that is gone")
	flags.TextVar(&s.logLevel, "log-level", slog.LevelInfo, "least level that is logged")
	if a.Flags != nil {
		a.Flags(flags)
	}
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	for name, value := range map[string]string{
		"--brokers": s.brokers, "--instance": s.instance, "--state-dir": s.stateDir,
	} {
		if value == "" {
			return s, fmt.Errorf("%s is missing", name)
		}
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("%q is no flag", flags.Arg(0))
	}
	return s, nil
}

// run runs the instance until ctx ends.
func run(ctx context.Context, a Application, s settings, stdout, stderr io.Writer) error {
	t, err := a.Topology()
	if err != nil {
		return err
	}
	app, err := txn.New(t, txn.Config{
		Brokers: strings.Split(s.brokers, ","), StateDir: s.stateDir, Instance: s.instance,
		SessionTimeout: s.sessionTimeout,
		Logger:         slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: s.logLevel})),
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	return report(app, stdout, ended)
}

// reportInterval is short enough to be waited for and long enough to cost nothing.
const reportInterval = 500 * time.Millisecond

// report prints what has changed until the instance has ended, and returns how it has.
func report(app *txn.App, stdout io.Writer, ended <-chan error) error {
	var p progress
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return errors.Join(err, p.print(stdout, app.Status()))
		case <-tick.C:
			// A reader that is gone does not end the instance; it shows in the exit code.
			_ = p.print(stdout, app.Status())
		}
	}
}

// progress is what was printed last.
type progress struct {
	state   string
	records int64
}

func (p *progress) print(w io.Writer, s txn.Status) error {
	if state := stateOf(s); state != p.state {
		if _, err := fmt.Fprintf(w, "state: %s\n", state); err != nil {
			return err
		}
		p.state = state
	}
	if n := s.Totals.Records; n != p.records {
		if _, err := fmt.Fprintf(w, "processed %d records\n", n); err != nil {
			return err
		}
		p.records = n
	}
	return nil
}

// stateOf tells an instance that works from one that waits for tasks. For the group both are members.
func stateOf(s txn.Status) string {
	if s.State != txn.Running {
		return strings.ToUpper(string(s.State))
	}
	state := "RUNNING"
	for _, task := range s.Tasks {
		switch task.State {
		case txn.TaskStopped:
			return "ERROR"
		case txn.TaskRestoring:
			state = "REBALANCING"
		case txn.TaskRunning:
		}
	}
	if len(s.Tasks) == 0 {
		state = "REBALANCING"
	}
	return state
}
