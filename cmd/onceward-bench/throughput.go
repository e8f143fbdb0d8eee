package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/onceward/onceward/bench/throughput"
	"github.com/onceward/onceward/bench/workload"
)

// selection names a workload and the cluster that it is on.
type selection struct {
	Workload string   `required:"" enum:"${workloads}" placeholder:"NAME" help:"One of ${workloads}."`
	Brokers  []string `required:"" placeholder:"HOST:PORT" env:"ONCEWARD_BROKERS" help:"Brokers to start from, with commas between them."`
}

// fillCommand writes an input.
type fillCommand struct {
	selection
	Topic        string        `required:"" placeholder:"TOPIC" help:"Topic to write; made if it is not there, and must have no records."`
	Records      int64         `required:"" placeholder:"N" help:"Number of records."`
	Partitions   int32         `default:"4" placeholder:"N" help:"Number of partitions; default ${default}."`
	Keys         int64         `default:"100000" placeholder:"N" help:"Number of accounts; default ${default}."`
	Distribution string        `enum:"uniform,zipf" default:"uniform" placeholder:"NAME" help:"How records are spread over the accounts, uniform or zipf; default ${default}."`
	Duplicates   float64       `default:"0.01" placeholder:"SHARE" help:"Share of records that repeat an earlier one; default ${default}."`
	Seed         uint64        `default:"1" placeholder:"N" help:"Another seed makes other records; default ${default}."`
	Interval     time.Duration `placeholder:"DURATION" help:"Time between the timestamps of two records, for windows; default is the time of writing. 100us is that of Nexmark."`
	Data         string        `placeholder:"FILE" help:"For flights: the file with the data, e2e/flights/testdata/flights.csv.gz of the project."`
	outputFlag
}

// Run writes the input.
func (c *fillCommand) Run(p *process) error {
	return measured(func(ctx context.Context) error {
		filled, err := throughput.Fill(ctx, throughput.FillConfig{
			Brokers: c.Brokers, Workload: c.Workload, Topic: c.Topic, Partitions: c.Partitions, Records: c.Records,
			Interval: c.Interval,
			Input: workload.Input{
				Seed: c.Seed, Keys: c.Keys, Distribution: workload.Distribution(c.Distribution), Duplicates: c.Duplicates, Flights: c.Data,
			},
		})
		if err != nil {
			return err
		}
		return c.write(p, filled)
	})
}

// runCommand runs a workload.
type runCommand struct {
	selection
	Application string `required:"" placeholder:"ID" env:"ONCEWARD_APPLICATION" help:"Application id; a new one, or one that goes on."`
	In          string `required:"" placeholder:"TOPIC" help:"Input, as fill has written it."`
	Out         string `required:"" placeholder:"TOPIC" help:"Output; made if it is not there. It must be this application's alone."`
	Until       int64  `required:"" placeholder:"N" help:"Stop when so many records are committed."`
	StateDir    string `required:"" placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"Directory of this instance, on a local disk; made if it is not there."`
	Workers     int    `placeholder:"N" env:"ONCEWARD_WORKERS" help:"Number of workers; default is one for each CPU."`
	CacheBytes  int64  `placeholder:"BYTES" help:"Memory of all databases together; default is the application's."`
	CPUProfile  string `name:"cpuprofile" placeholder:"FILE" help:"Write a CPU profile of the steady state."`
	MemProfile  string `name:"memprofile" placeholder:"FILE" help:"Write a profile of what was allocated."`
	Trace       string `placeholder:"FILE" help:"Write an execution trace of the first second of the steady state."`
	NoCheck     bool   `help:"Do not check what has come out."`
	outputFlag
}

// Run runs the workload.
func (c *runCommand) Run(p *process) error {
	return measured(func(ctx context.Context) error {
		result, err := throughput.Run(ctx, throughput.RunConfig{
			Brokers: c.Brokers, Application: c.Application, Workload: c.Workload, In: c.In, Out: c.Out, Until: c.Until, StateDir: c.StateDir,
			Workers: c.Workers, CacheBytes: c.CacheBytes, NoCheck: c.NoCheck,
			Profiles: throughput.Profiles{CPU: c.CPUProfile, Memory: c.MemProfile, Trace: c.Trace},
			Logger:   slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			return err
		}
		return c.write(p, result)
	})
}

// checkCommand checks an output.
type checkCommand struct {
	selection
	In    string `required:"" placeholder:"TOPIC" help:"Input, as fill has written it."`
	Out   string `required:"" placeholder:"TOPIC" help:"Output of one run."`
	Until int64  `placeholder:"N" help:"How many records of the input were processed at least; default is all."`
	outputFlag
}

// Run checks the output.
func (c *checkCommand) Run(p *process) error {
	return measured(func(ctx context.Context) error {
		checked, err := throughput.Check(ctx, throughput.CheckConfig{
			Brokers: c.Brokers, Workload: c.Workload, In: c.In, Out: c.Out, Until: c.Until,
		})
		if err != nil {
			return err
		}
		return c.write(p, checked)
	})
}
