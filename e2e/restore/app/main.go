// Command app is the application of package restore as a process. It reads its settings, as JSON, from the environment variable
// ONCEWARD_RESTORE_SETTINGS, logs on standard error, and ends in order at SIGTERM. When its standard input ends it dies at once:
// whoever has started it is gone. It is meant to be built with the tag onceward_failpoints, and runs without as well.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/onceward/onceward/e2e/restore"
	"github.com/onceward/onceward/txn"
)

func main() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it, the parent is gone
		os.Exit(1)
	}()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ended:", err)
		os.Exit(1)
	}
}

func run() error {
	var s restore.Settings
	if err := json.Unmarshal([]byte(os.Getenv("ONCEWARD_RESTORE_SETTINGS")), &s); err != nil {
		return err
	}
	t, err := restore.New(s)
	if err != nil {
		return err
	}
	cfg := s.Config()
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	app, err := txn.New(t, cfg)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return app.Run(ctx)
}
