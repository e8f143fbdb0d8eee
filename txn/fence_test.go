package txn_test

import (
	"context"
	"errors"
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

// TestTwoProcessesWithOneIdentity: the older one ends with an error that names the identity, and its restart waits out the rest of
// 30 s before it initialises producers (6.8); a stop ends the wait.
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
		fenced, err := os.Stat(filepath.Join(dir, "older", "FENCED"))
		if err != nil {
			t.Fatal(err)
		}
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
			// The process is stopped while it waits: nothing is forgotten by that.
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			var waited time.Duration
			c := cfg("older").WithClock(func() time.Time { return fenced.ModTime().Add(test.since) }, func(ctx context.Context, d time.Duration) error {
				waited = d
				cancel()
				<-ctx.Done()
				return ctx.Err()
			})
			app, err := txn.New(countTopology(t), c)
			if err != nil {
				t.Fatal(err)
			}
			err = app.Run(ctx)
			cancel()
			if err != nil {
				t.Errorf("%s: stopped while waiting: %v", test.name, err)
			}
			if waited != test.want || initialised.Load() != 0 {
				t.Errorf("%s: waited %s, want %s; %d producers were initialised meanwhile", test.name, waited, test.want, initialised.Load())
			}
		}
		// 30 s later it does not wait, and forgets.
		c := cfg("older").WithClock(func() time.Time { return fenced.ModTime().Add(31 * time.Second) }, func(context.Context, time.Duration) error {
			t.Error("waited although the time had passed")
			return nil
		})
		app, _ := start(t, countTopology(t), c)
		feed(t, b, 100)
		waitFor(t, "the restarted process to commit", func() bool { return app.Status().Totals.Records == 100 })
		if _, err := os.Stat(filepath.Join(dir, "older", "FENCED")); !os.IsNotExist(err) {
			t.Errorf("the fence is still recorded: %v", err)
		}
		if initialised.Load() == 0 {
			t.Error("the count of initialised producers counts nothing")
		}
		check(t, b.read(t, "out", 300), 15)
	})
}
