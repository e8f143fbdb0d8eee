package txn_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn"
)

// TestTwoProcessesWithOneIdentity: the older one ends with an error that names the identity, and
// its restart waits out the rest of 30 s before it initialises producers (6.8); a stop ends the
// wait.
func TestTwoProcessesWithOneIdentity(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		feed(t, b, 100)
		dir := t.TempDir()
		cfg := func(name string) txn.Config {
			return b.config(txn.Config{StateDir: filepath.Join(dir, name), Instance: "twin", Workers: 1, Logger: testLogger(t)})
		}
		older, err := txn.New(countTopology(t), cfg("older"))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- older.Run(context.Background()) }()
		waitFor(t, "the older process to commit", func() bool { return older.Status().Totals.Records == 100 })
		newer, stop := start(t, countTopology(t), cfg("newer"))
		select {
		case err = <-ended:
		case <-time.After(patience):
			t.Fatal("the older process goes on")
		}
		if !errors.Is(err, kerr.FencedInstanceID) || !strings.Contains(err.Error(), `another process runs as instance "twin"`) {
			t.Fatalf("the older process ended with %v", err)
		}
		fenced := filepath.Join(dir, "older", "FENCED")
		if info, err := os.Stat(fenced); err != nil || time.Since(info.ModTime()) > time.Second {
			t.Fatalf("the fence is recorded as of %v (%v)", info, err)
		}
		// fence makes it one of so long ago.
		fence := func(ago time.Duration) {
			t.Helper()
			at := time.Now().Add(-ago)
			if err := os.Chtimes(fenced, at, at); err != nil {
				t.Fatal(err)
			}
		}
		const waiting = "another process fenced this instance by running under its identity; waiting before the identity is taken back"
		feed(t, b, 100)
		waitFor(t, "the newer process to go on", func() bool { return newer.Status().Totals.Records >= 100 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}

		var initialised atomic.Int64
		b.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			initialised.Add(1)
			return nil, nil, false
		})
		for _, test := range []struct {
			name        string
			since, want time.Duration // since the fence
		}{
			{"at once", 0, 30 * time.Second},
			{"later", 12 * time.Second, 18 * time.Second},
			{"with the clock set back", -time.Hour, 30 * time.Second},
		} {
			// The process is stopped a second before its wait is over: the recorded fence stays.
			fence(test.since)
			ctx, cancel := context.WithTimeout(t.Context(), test.want-time.Second)
			waits, c := newLogged(t, waiting, "wait"), cfg("older")
			c.Logger = slog.New(waits)
			app, err := txn.New(countTopology(t), c)
			if err != nil {
				t.Fatal(err)
			}
			err = app.Run(ctx)
			cancel()
			if err != nil {
				t.Errorf("%s: stopped while waiting: %v", test.name, err)
			}
			waited, err := time.ParseDuration(strings.Join(waits.all(), " and "))
			if err != nil || waited > test.want || waited < test.want-time.Second || initialised.Load() != 0 {
				t.Errorf("%s: waited %s (%v), want %s; %d producers were initialised meanwhile", test.name, waited, err, test.want, initialised.Load())
			}
		}
		// 30 s later it does not wait, and clears the recorded fence.
		fence(31 * time.Second)
		var waits atomic.Int64
		c := cfg("older")
		c.Logger = countLogs(waiting, &waits)
		app, _ := start(t, countTopology(t), c)
		feed(t, b, 100)
		waitFor(t, "the restarted process to commit", func() bool { return app.Status().Totals.Records == 100 })
		if _, err := os.Stat(fenced); !os.IsNotExist(err) {
			t.Errorf("the fence is still recorded: %v", err)
		}
		if waits.Load() > 0 {
			t.Error("waited although the time had passed")
		}
		if initialised.Load() == 0 {
			t.Error("the count of initialised producers counts nothing")
		}
		check(t, b.read(t, "out", 300), 15)
	})
}
