package soak

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/testapp"
)

// The flags of TestSoak.
var (
	minutes = flag.Float64("minutes", 0, "how long the nemesis of TestSoak works; 0 skips the test")
	seed    = flag.Uint64("seed", 0, "seed of its feeder and its nemesis; 0 takes one from the clock")
	keep    = flag.Bool("keep", false, "keep state, logs and history of a TestSoak that passes")
	rate    = flag.Int("rate", defaultConfig().Rate, "its inputs a second")
	session = flag.Duration("session", defaultConfig().Session, "session timeout of its group")
)

// programInstance is an instance of the application as a process.
const programInstance = "instance"

func TestMain(m *testing.M) {
	instance.Main(m, instance.Programs{programInstance: testapp.Program})
}

// TestSoak is the soak of make soak: nothing is found under all faults. State, logs and history
// stay in a directory if it fails. SIGINT ends it early, in order.
func TestSoak(t *testing.T) {
	if *minutes <= 0 {
		t.Skip("runs for as long as -minutes says: make soak")
	}
	dir, err := os.MkdirTemp("", "onceward-soak-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() || *keep {
			t.Log("state, logs and history are in", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, began := defaultConfig(), time.Now()
	cfg.Duration, cfg.Rate, cfg.Session, cfg.Dir = time.Duration(*minutes*float64(time.Minute)), *rate, *session, dir
	if cfg.Seed = *seed; cfg.Seed == 0 {
		cfg.Seed = uint64(began.UnixNano())
	}
	cfg.Log = func(format string, args ...any) {
		t.Helper()
		t.Logf("%8.1f s  "+format, append([]any{time.Since(began).Seconds()}, args...)...)
	}
	cfg.Log("seed %d, in %s", cfg.Seed, dir)
	if found := soak(ctx, t, cluster.OwnWith(t, cluster.KindKafka, clusterOptions()), cfg); !found.OK() {
		t.Fail()
	}
}

// TestShortSoakFindsNothing is a soak of half a minute with a fixed seed, with a freeze, kills and
// restarts. The copy test bounces the broker.
func TestShortSoakFindsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	cfg := defaultConfig()
	cfg.Duration, cfg.Seed, cfg.Rate, cfg.Dir, cfg.Log = 30*time.Second, 11, 200, t.TempDir(), t.Logf
	found := soak(t.Context(), t, cluster.OwnWith(t, cluster.KindKafka, clusterOptions()), cfg)
	if !found.OK() {
		t.Fail()
	}
	if f := found.Faults; f.Kills+f.Freezes+f.Stops+f.Remains+f.Joins+f.BrokerKills+f.BrokerStops < 3 {
		t.Errorf("that was no soak: %+v", f)
	}
	if found.Report.Inputs < 2000 || found.Report.States == 0 || found.Report.Reads == 0 {
		t.Errorf("that was no soak: %s", found)
	}
}

// soak is one run on a cluster that may be taken down, and that was started with clusterOptions if
// the broker is among the victims. It logs and returns what the run has led to.
func soak(ctx context.Context, t *testing.T, c *cluster.Cluster, cfg config) *outcome {
	t.Helper()
	found, err := runOn(ctx, c, cfg, instance.Program(t, programInstance))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", found)
	return found
}
