// Command app counts the records of each key. Package versions builds it twice, as this build and as the next one (tag onceward_next),
// and lets the two share groups and state directories. It ends in order at SIGTERM, and at once when its standard input ends, which is
// when the test is gone. What ends it is told in one line on the standard error; logs go to the standard output.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

func main() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it, the parent is gone
		os.Exit(2)
	}()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "application:", err)
		os.Exit(1)
	}
}

func run() error {
	var brokers, in, out string
	cfg := txn.Config{
		Workers: 1, SessionTimeout: 15 * time.Second, CacheBytes: 8 << 20, Logger: slog.New(slog.NewTextHandler(os.Stdout, nil)),
	}
	flag.StringVar(&brokers, "brokers", "", "bootstrap brokers, host:port,...")
	flag.StringVar(&in, "in", "", "input topic")
	flag.StringVar(&out, "out", "", "output topic")
	flag.StringVar(&cfg.Application, "application", "", "application id")
	flag.StringVar(&cfg.StateDir, "state-dir", "", "state directory")
	flag.StringVar(&cfg.Instance, "instance", "", "identity of the instance")
	flag.Parse()
	cfg.Brokers = strings.Split(brokers, ",")
	t, err := counting(in, out)
	if err != nil {
		return err
	}
	app, err := txn.New(t, cfg)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return app.Run(ctx)
}

// counting writes, for each record, the how manyth of its key it is.
func counting(in, out string) (*topology.Topology, error) {
	text, number := schemas.String(), schemas.Int64()
	b := topology.NewBuilder("versions")
	count := func(
		c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, int64],
	) error {
		n, _, err := counts.Get(r.Key)
		if err == nil {
			err = counts.Put(r.Key, n+1)
		}
		if err != nil {
			return err
		}
		return emit(c, topology.WithValue(r, n+1))
	}
	source := topology.From(b, topology.Topic(in, text, text))
	topology.Process(source, "count", topology.Store("counts", text, number), count).Into(topology.Topic(out, text, number))
	return b.Build()
}
