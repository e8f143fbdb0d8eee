package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/onceward/onceward/bench/latency"
)

// latencyCommand measures latency under steady load.
type latencyCommand struct {
	Workload       string        `enum:"pass,ledger" default:"ledger" placeholder:"NAME" help:"The application, pass or ledger; default ${default}."`
	Brokers        []string      `required:"" placeholder:"HOST:PORT" env:"ONCEWARD_BROKERS" help:"Brokers to start from, with commas between them."`
	Application    string        `required:"" placeholder:"ID" env:"ONCEWARD_APPLICATION" help:"Application id; a new one."`
	In             string        `placeholder:"TOPIC" help:"Input, made if it is not there; it must have no records. Default is the application's id with -in behind it."`
	Out            string        `placeholder:"TOPIC" help:"Output, likewise; default is the application's id with -out behind it."`
	Partitions     int32         `default:"4" placeholder:"N" help:"Number of partitions; default ${default}."`
	Rate           int           `default:"10000" placeholder:"N" help:"Events per second; default ${default}."`
	Warmup         time.Duration `default:"10s" placeholder:"DURATION" help:"Time before the measurement; whole seconds; default ${default}."`
	Duration       time.Duration `default:"30s" placeholder:"DURATION" help:"Time of the measurement; whole seconds; default ${default}."`
	CommitInterval time.Duration `placeholder:"DURATION" env:"ONCEWARD_COMMIT_INTERVAL" help:"The longest that a record waits for its commit; default is the application's."`
	External       bool          `help:"Start no application: measure a running one of any kind."`
	StateDir       string        `placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"State directory of the application; default is a temporary one."`
	CPUProfile     string        `name:"cpuprofile" placeholder:"FILE" help:"Write a CPU profile of the application, of the first half of what is measured."`
	Histogram      string        `placeholder:"FILE" help:"Write the distribution as percentiles, as HdrHistogram's tools do."`
	outputFlag
}

// Help is the long description.
func (latencyCommand) Help() string {
	return "Sends events at a fixed rate and never waits for the system under test. A latency counts from the time at which an " +
		"event was due, so a system that stalls is charged for every event of that time. It ends when a reader of committed " +
		"records has the output. Every event is checked: a lost or doubled one is an error."
}

// Run measures.
func (c *latencyCommand) Run(p *process) error {
	whole := func(d time.Duration) bool { return d >= time.Second && d%time.Second == 0 }
	switch {
	case c.Partitions < 1 || c.Rate < 1 || !whole(c.Warmup) || !whole(c.Duration):
		return usage("--partitions and --rate must be at least 1, --warmup and --duration whole seconds of at least 1s")
	case c.External && c.CPUProfile != "":
		return usage("--cpuprofile is of an application that is started here, and with --external none is")
	}
	return measured(func(ctx context.Context) (err error) {
		dir, err := os.MkdirTemp("", "onceward-latency-")
		if err != nil {
			return err
		}
		result, err := latency.Measure(ctx, latency.Config{
			Brokers: c.Brokers, Name: c.Application, In: c.In, Out: c.Out, Partitions: c.Partitions, Workload: c.Workload, External: c.External,
			Rate: c.Rate, Warmup: c.Warmup, Duration: c.Duration, CommitIntervalMax: c.CommitInterval, Dir: dir, StateDir: c.StateDir,
			CPUProfile: c.CPUProfile, InstanceArgs: []string{"instance"}, Histogram: c.Histogram,
		})
		switch {
		case ctx.Err() != nil: // the caller has stopped the measurement
			return errors.Join(err, os.RemoveAll(dir))
		case err != nil:
			_ = os.Remove(dir) // it stays if there is a log in it
			return err
		}
		return errors.Join(c.write(p, result), os.RemoveAll(dir))
	})
}

// instanceCommand is what latency starts as its application.
type instanceCommand struct{}

// Run runs the application, and ends the process with it.
func (instanceCommand) Run(*process) error {
	latency.RunInstance()
	return usage("this command is for latency alone")
}
