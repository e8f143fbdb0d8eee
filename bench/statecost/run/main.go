// Command run measures the cost of state by its size, and the reopen after a kill:
//
//	go run ./bench/statecost/run --sizes 1000000,10000000,50000000
//
// Package statecost says how. It needs no broker, and 15 GB of disk for 50 million keys.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/statecost"
)

func main() {
	statecost.RunInstance()
	measure.Main("state", run)
}

func run(ctx context.Context) error {
	sizes := flag.String("sizes", "1000000,10000000,50000000", "numbers of keys, ascending")
	records := flag.Int64("records", 1_000_000, "records of each run")
	warmup := flag.Int64("warmup", 200_000, "records before, which do not count")
	repeats := flag.Int("repeats", 3, "runs of each size and distribution")
	round := flag.Int("round", 10_000, "records that are applied together")
	duplicates := flag.Float64("duplicates", 0.05, "share of contributions that were posted before")
	exponent := flag.Float64("exponent", 1.1, "that of Zipf's law, above 1")
	seed := flag.Uint64("seed", 1, "what the records are made from")
	cache := flag.Int64("cache", 256<<20, "bytes of the block cache")
	reopenKeys := flag.Int64("reopen-keys", 10_000_000, "the size at which a process is killed; 0 is none")
	reopens := flag.Int("reopens", 5, "how often")
	dir := flag.String("dir", "", "directory for the databases, on the disk to be measured (default: a temporary one, removed)")
	out := flag.String("out", "", "directory for state.md and state.json")
	flag.Parse()
	cfg := statecost.Config{
		Warmup: *warmup, Records: *records, Repeats: *repeats, CacheBytes: *cache,
		ReopenKeys: statecost.Keys(*reopenKeys), Reopens: *reopens, Quiet: 2 * time.Second, Progress: os.Stderr,
	}
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || flag.NArg() > 0 {
			flag.Usage()
			return fmt.Errorf("-sizes is a list of numbers, and there are no arguments")
		}
		cfg.Sizes = append(cfg.Sizes, statecost.Keys(n))
	}
	if cfg.ReopenKeys == 0 {
		cfg.Reopens = 0
	}
	w := statecost.Workload{Distribution: statecost.Uniform, Duplicates: *duplicates, Round: *round, Seed: *seed}
	cfg.Workloads = append(cfg.Workloads, w)
	w.Distribution, w.Exponent = statecost.Zipf, *exponent
	cfg.Workloads = append(cfg.Workloads, w)
	tmp, err := os.MkdirTemp(*dir, "onceward-state-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // nothing depends on it
	cfg.Dir = tmp
	result, err := statecost.Measure(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Print(result.Markdown())
	if *out == "" {
		return nil
	}
	return result.Write(*out)
}
