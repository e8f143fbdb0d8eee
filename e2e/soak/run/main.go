// Command run is the soak of make soak: it prints a summary and exits with 1 if anything was found. See package soak.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/soak"
)

func main() {
	soak.Instance()
	os.Exit(run())
}

func run() int {
	cfg := soak.DefaultConfig()
	minutes := flag.Float64("minutes", 60, "how long the nemesis works")
	keep := flag.Bool("keep", false, "keep state, logs and history even if nothing was found")
	flag.Uint64Var(&cfg.Seed, "seed", uint64(time.Now().UnixNano()), "seed of the feeder and the nemesis")
	flag.IntVar(&cfg.Rate, "rate", cfg.Rate, "inputs a second")
	flag.DurationVar(&cfg.Session, "session", cfg.Session, "session timeout of the group")
	flag.Parse()
	cfg.Duration = time.Duration(*minutes * float64(time.Minute))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	began := time.Now()
	cfg.Log = func(format string, args ...any) {
		fmt.Printf("%8.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	summary, err := soakOnce(ctx, &cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		fmt.Fprintln(os.Stderr, "state, logs and history are in", cfg.Dir)
		return 1
	}
	fmt.Print(summary)
	if !summary.OK() {
		fmt.Println("state, logs and history are in", cfg.Dir)
		return 1
	}
	if *keep {
		fmt.Println("state, logs and history are in", cfg.Dir)
		return 0
	}
	if err := os.RemoveAll(cfg.Dir); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	return 0
}

func soakOnce(ctx context.Context, cfg *soak.Config) (_ *soak.Summary, err error) {
	if cfg.Dir, err = os.MkdirTemp("", "onceward-soak-"); err != nil {
		return nil, err
	}
	cfg.Log("seed %d, in %s", cfg.Seed, cfg.Dir)
	c, err := cluster.Start(ctx, cluster.KindKafka, soak.ClusterOptions())
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := c.Close(); err == nil {
			err = closeErr
		}
	}()
	return soak.Run(ctx, c, *cfg)
}
