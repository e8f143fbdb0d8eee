package figures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
)

// envFigures is the directory for the results of a full measurement; without it the tests run their
// short form.
const envFigures = "ONCEWARD_FIGURES"

const partitions = 4

// plan is how much is measured.
type plan struct {
	// dir takes results; empty in the short form.
	dir  string
	rate int
	// between is how long the load runs before each disturbance.
	between          time.Duration
	latencyRuns      int
	warmup, duration time.Duration
	// warmBroker is how much longer the first latency run warms up: a broker that has just started
	// compiles its code on the cores that everybody shares, which doubles every latency.
	warmBroker                  time.Duration
	restarts, takeovers, rolls  int
	session, transaction        time.Duration
	takeoversAtDefault          int
	restartMax, beyondMax, roll time.Duration
	// restart are the timeouts of what is restarted. Whoever waits for one of them takes longer
	// than restartMax.
	restart latency.Settings
}

// The defaults of txn.Config, which the table names.
const (
	sessionDefault     = 45 * time.Second
	transactionDefault = 10 * time.Second
)

func planFromEnv() plan {
	p := plan{
		rate: 1000, between: time.Second, restarts: 2, takeovers: 1, rolls: 1, session: 6 * time.Second, transaction: 2 * time.Second,
		// Far from what a start takes, on a machine that also compiles and tests something else,
		// and from what it must not wait for.
		restart: latency.Settings{SessionTimeout: 2 * time.Minute, TransactionTimeout: 2 * time.Minute}, restartMax: time.Minute,
		// Below the default session of 45 s.
		beyondMax: 20 * time.Second, roll: 20 * time.Second,
	}
	if p.dir = os.Getenv(envFigures); p.dir != "" {
		p.rate, p.between = 10_000, 5*time.Second
		p.latencyRuns, p.warmup, p.duration, p.warmBroker = 3, 10*time.Second, 30*time.Second, 2*time.Minute
		p.restarts, p.takeovers, p.takeoversAtDefault, p.rolls = 10, 6, 2, 2
		// Alone on the machine, and as it is by default: a transaction timeout of 10 s and a
		// session of 45 s.
		p.restart, p.restartMax = latency.Settings{}, 8*time.Second
	}
	return p
}

// Figures is everything that one measurement has found.
type Figures struct {
	Host      string           `json:"host"`
	Time      time.Time        `json:"time"`
	Rate      int              `json:"events_per_second"`
	Latencies []latency.Result `json:"latency"`
	Restarts  []Restart        `json:"restart"`
	Takeovers []Takeover       `json:"takeover"`
	Rolls     []Roll           `json:"rolling"`
}

// TestFigures measures all scenarios on one real broker, and asserts the bounds.
func TestFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("this measures times, for a build as it is released, and -short leaves it out")
	}
	p := planFromEnv()
	c := broker(t, p)
	found := Figures{Host: latency.Host(), Time: time.Now().UTC(), Rate: p.rate}
	t.Run("latency", func(t *testing.T) { found.Latencies = measureLatency(t, c, p) })
	t.Run("restart", func(t *testing.T) {
		found.Restarts = measureRestarts(t, c, p)
		for _, r := range found.Restarts {
			within(t, "the first commit after a start", r.First, p.restartMax)
		}
	})
	t.Run("takeover", func(t *testing.T) {
		// What follows the timeouts is measured: peers would not wait for them. TestFailover
		// measures takeovers with peers.
		s := latency.Settings{SessionTimeout: p.session, TransactionTimeout: p.transaction, Peers: txn.PeersOff}
		found.Takeovers = measureTakeovers(t, c, p, s, p.takeovers)
		if p.takeoversAtDefault > 0 {
			t.Run("default", func(t *testing.T) {
				s.SessionTimeout, s.TransactionTimeout = sessionDefault, transactionDefault
				found.Takeovers = append(found.Takeovers, measureTakeovers(t, c, p, s, p.takeoversAtDefault)...)
			})
		}
		for _, r := range found.Takeovers {
			within(t, "a takeover, beyond session timeout and restore", r.beyond(), p.beyondMax)
		}
	})
	t.Run("rolling", func(t *testing.T) {
		found.Rolls = measureRolls(t, c, p)
		for _, r := range found.Rolls {
			within(t, "the pause of a partition whose instance restarts", r.Pause, p.roll)
			within(t, "the pause of a partition whose instance goes on", r.Others, p.roll)
		}
	})
	t.Logf("\n%s", found.table())
	if p.dir != "" && !t.Failed() {
		if err := found.write(filepath.Join(p.dir, "figures.json")); err != nil {
			t.Fatal(err)
		}
	}
}

// broker returns what is measured: in the full form a broker whose code is compiled as that of any
// other.
func broker(t *testing.T, p plan) *cluster.Cluster {
	t.Helper()
	if p.dir == "" {
		return cluster.Kafka(t)
	}
	c, err := cluster.Start(t.Context(), cluster.KindKafka, cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func within(t *testing.T, what string, d, most time.Duration) {
	t.Helper()
	if d > most {
		t.Errorf("%s took %s, more than %s", what, round(d), most)
	}
}

func (f *Figures) write(path string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// table shows each figure as least, median and greatest of its runs.
func (f *Figures) table() string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "figure\truns\tleast\tmedian\tgreatest\ttarget\t\n")
	row(w, "latency p50", f.Latencies, func(r latency.Result) time.Duration { return r.Latency.P50 }, "8ms")
	row(w, "latency p99", f.Latencies, func(r latency.Result) time.Duration { return r.Latency.P99 }, "50ms")
	row(w, "restart, first commit", f.Restarts, func(r Restart) time.Duration { return r.First }, "1s + replay")
	row(w, "restart, all partitions", f.Restarts, func(r Restart) time.Duration { return r.All }, "")
	row(w, "takeover", f.Takeovers, func(r Takeover) time.Duration { return r.All }, "")
	row(w, "takeover beyond session and restore", f.Takeovers, Takeover.beyond, "2s")
	row(w, "takeover, restore", f.Takeovers, func(r Takeover) time.Duration { return r.Restore }, "")
	row(w, "takeover, pause of the others", f.Takeovers, func(r Takeover) time.Duration { return r.Others }, "")
	row(w, "rolling, pause", f.Rolls, func(r Roll) time.Duration { return r.Pause }, "2s")
	row(w, "rolling, pause of the others", f.Rolls, func(r Roll) time.Duration { return r.Others }, "2s")
	_ = w.Flush() // a buffer takes everything
	return b.String()
}

func row[T any](w *tabwriter.Writer, name string, runs []T, figure func(T) time.Duration, target string) {
	if len(runs) == 0 {
		return
	}
	var ds []time.Duration
	for _, r := range runs {
		ds = append(ds, figure(r))
	}
	slices.Sort(ds)
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t\n", name, len(ds), tenth(ds[0]), tenth(ds[len(ds)/2]), tenth(ds[len(ds)-1]), target)
}

func tenth(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
