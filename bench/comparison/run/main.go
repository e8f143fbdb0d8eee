// Command run compares Onceward with Kafka Streams and with a plain loop, on a running cluster:
//
//	go run ./bench/comparison/run -brokers 127.0.0.1:9092 -out bench
//
// See package comparison. The command creates its own topics and groups, and deletes them. With
// -parts it measures the named parts again, and keeps the others of the existing report. With
// -sweep it searches settings of Kafka Streams instead, and writes them to a file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/comparison"
	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/workload"
)

func main() {
	comparison.RunInstance()
	measure.Main("peers", run)
}

// options are what is not part of a configuration.
type options struct {
	sweep string
	out   string
	alone bool
}

func run(ctx context.Context) (err error) {
	cfg, o, err := parse()
	if err != nil {
		return err
	}
	if cfg.Dir == "" {
		if cfg.Dir, err = os.MkdirTemp("", "onceward-peers-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(cfg.Dir)) }()
	}
	if !o.alone {
		installation, err := streams.Find(ctx)
		if err != nil {
			return err
		}
		cfg.Streams = &installation
	}
	if o.sweep != "" {
		earlier, err := comparison.LastSweep()
		if err != nil {
			return err
		}
		swept, err := comparison.Sweep(ctx, cfg)
		if err != nil {
			return err
		}
		return swept.With(earlier).Write(o.sweep)
	}
	var earlier comparison.Result
	if o.out != "" {
		if earlier, err = comparison.Earlier(o.out); err != nil {
			return err
		}
		cfg.Done = func(r comparison.Result) error { return r.With(earlier).Write(o.out) }
	}
	result, err := comparison.Measure(ctx, cfg)
	if err == nil {
		fmt.Print(result.With(earlier).Markdown())
	}
	return err
}

// parse reads the flags. Without flags it measures everything.
func parse() (cfg comparison.Config, o options, err error) {
	cfg = comparison.Thorough()
	brokers := flag.String("brokers", "", "host:port,... of a running cluster (required)")
	flag.IntVar(&cfg.BrokerPID, "broker-pid", 0, "process of the only broker, on this machine, for its processor time")
	parts := flag.String("parts", "", "parts to measure: the workloads pass, count, ledger, repartition, stream-table, stream-stream, foreign-key, "+
		"sessions and flights; latency, recovery, restore and scaling. "+
		"The default is all, the flights with -flights. The report keeps the other parts. A sweep is of workloads")
	flag.StringVar(&cfg.Revision, "revision", "", "which Onceward this is, for the report, such as a commit")
	only := flag.String("only", "", "candidates, such as \"onceward,streams tuned\" (default: all)")
	flag.Int64Var(&cfg.Records, "records", cfg.Records, "records of each input; a sweep takes a quarter of them")
	partitions := flag.Int("partitions", int(cfg.Partitions), "partitions of each topic")
	flag.Int64Var(&cfg.Input.Keys, "keys", cfg.Input.Keys, "accounts")
	distribution := flag.String("distribution", string(cfg.Input.Distribution), "uniform or zipf")
	flag.Float64Var(&cfg.Input.Duplicates, "duplicates", cfg.Input.Duplicates, "share of records that repeat an earlier one")
	flag.StringVar(&cfg.Input.Flights, "flights", "", "file with the flights, for the workload of that name")
	flag.Uint64Var(&cfg.Input.Seed, "seed", cfg.Input.Seed, "what the input is made from")
	flag.IntVar(&cfg.Rounds, "rounds", cfg.Rounds, "how often the candidates take turns")
	flag.BoolVar(&o.alone, "alone", false, "without Kafka Streams, and so without Java")
	flag.StringVar(&o.sweep, "sweep", "", "look for the settings of Kafka Streams and write them to this file")
	flag.StringVar(&cfg.Dir, "dir", "", "directory for state and logs (default: a temporary one, removed)")
	flag.StringVar(&o.out, "out", "", "directory for RESULTS.md, RESULTS.json and RESULTS.svg")
	flag.Parse()
	if flag.NArg() > 0 {
		return cfg, o, fmt.Errorf("%q is no flag; -help lists them", flag.Arg(0))
	}
	if *brokers == "" {
		return cfg, o, errors.New("-brokers is required")
	}
	cfg.Brokers, cfg.Partitions = strings.Split(*brokers, ","), int32(*partitions)
	cfg.Input.Distribution = workload.Distribution(*distribution)
	cfg.Broker, cfg.Command = "a running cluster", strings.Join(append([]string{"go run ./bench/comparison/run"}, os.Args[1:]...), " ")
	cfg.Name, cfg.Progress = fmt.Sprintf("peers-%d", time.Now().UnixMilli()), os.Stderr
	cfg.Only = list(*only)
	if o.sweep != "" {
		cfg, err = cfg.ForSweep(list(*parts))
	} else {
		err = cfg.Select(list(*parts))
	}
	return cfg, o, err
}

// list splits names at commas; no names are nil.
func list(names string) (out []string) {
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}
