// Command run measures the latency of inbox dedupe and ledger on a running cluster:
//
//	go run ./bench/latency/run --brokers 127.0.0.1:9092
//
// Package latency says how. It creates topics of its own and leaves them behind.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward/bench/latency"
)

func main() {
	latency.RunInstance()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	brokers := flag.String("brokers", "", "host:port,... of a running cluster (required)")
	rate := flag.Int("rate", 10_000, "events per second")
	warmup := flag.Duration("warmup", 10*time.Second, "what is sent before does not count; whole seconds")
	duration := flag.Duration("duration", 30*time.Second, "what is measured; whole seconds")
	partitions := flag.Int("partitions", 4, "partitions of each topic")
	interval := flag.Duration("commit-interval", 0, "longest commit interval of the application (default: its own)")
	repeat := flag.Int("repeat", 1, "how often to measure, each time a new application")
	dir := flag.String("dir", "", "directory for state, logs and profiles (default: a temporary one, removed)")
	profile := flag.Bool("profile", false, "write a CPU profile of the application to -dir")
	out := flag.String("json", "", "file for the results")
	flag.Parse()
	if *brokers == "" || flag.NArg() > 0 || *rate < 1 || *warmup < time.Second || *duration < time.Second {
		flag.Usage()
		return fmt.Errorf("-brokers is required; rate, warm-up and duration are at least 1 and 1s")
	}
	if *dir == "" {
		tmp, err := os.MkdirTemp("", "onceward-latency-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(tmp) }() // nothing depends on it
		*dir = tmp
	}
	fmt.Printf("%s; %d events/s, %d partitions, one instance\n", latency.Host(), *rate, *partitions)
	var results []latency.Result
	for i := range *repeat {
		name := fmt.Sprintf("latency-%d-%d", time.Now().UnixMilli(), i)
		r, err := latency.Measure(ctx, latency.Config{
			Brokers: strings.Split(*brokers, ","), Name: name, Partitions: int32(*partitions), Rate: *rate, Warmup: *warmup,
			Duration: *duration, CommitIntervalMax: *interval, Dir: filepath.Join(*dir, name), Profile: *profile,
		})
		if err != nil {
			return err
		}
		results = append(results, r)
		fmt.Println(r)
	}
	if *out == "" {
		return nil
	}
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}
