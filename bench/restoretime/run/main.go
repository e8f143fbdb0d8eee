// Command run compares the restore of state with Kafka Streams on a running cluster:
//
//	go run ./bench/restoretime/run --brokers 127.0.0.1:9092
//
// Package restoretime says how. It creates topics and a group of its own, and deletes them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/restoretime"
)

func main() {
	restoretime.RunInstance()
	measure.Main("restore", run)
}

func run(ctx context.Context) error {
	brokers := flag.String("brokers", "", "host:port,... of a running cluster (required)")
	records := flag.Int64("records", 4_000_000, "changelog records of both stores together")
	partitions := flag.Int("partitions", 4, "partitions of each topic")
	updates := flag.Float64("updates", 0.05, "share of records whose key was written before, up to 0.5")
	seed := flag.Uint64("seed", 1, "what the records are made from")
	rounds := flag.Int("rounds", 5, "how often the candidates take turns")
	search := flag.Int("search", 3, "how often each setting of Kafka Streams is tried")
	cache := flag.Int64("cache", 0, "bytes of Onceward's block cache (default: its own)")
	alone := flag.Bool("alone", false, "measure Onceward alone, without Java")
	dir := flag.String("dir", "", "directory for state and logs (default: a temporary one, removed)")
	out := flag.String("out", "", "directory for restore.md and restore.json")
	flag.Parse()
	if *brokers == "" || flag.NArg() > 0 {
		flag.Usage()
		return fmt.Errorf("-brokers is required")
	}
	if *dir == "" {
		tmp, err := os.MkdirTemp("", "onceward-restore-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(tmp) }() // nothing depends on it
		*dir = tmp
	}
	cfg := restoretime.Config{
		Brokers: strings.Split(*brokers, ","), Name: fmt.Sprintf("restore-%d", time.Now().UnixMilli()), Dir: *dir,
		Data:   restoretime.Data{Records: *records, Partitions: int32(*partitions), Updates: *updates, Seed: *seed},
		Rounds: *rounds, SearchRuns: *search, CacheBytes: *cache, Progress: os.Stderr,
	}
	if !*alone {
		installation, err := streams.Find(ctx)
		if err != nil {
			return err
		}
		cfg.Streams = &installation
	}
	result, err := restoretime.Measure(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Print(result.Markdown())
	if *out == "" {
		return nil
	}
	return result.Write(*out)
}
