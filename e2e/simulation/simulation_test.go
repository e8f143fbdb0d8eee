package simulation_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/e2e/simulation"
	"github.com/onceward/onceward/e2e/virtual"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed")
	seedCount = flag.Int("seeds", 0, "number of seeds for each subject; 0 is the fixed number of the gate")
	tries     = flag.Int("tries", 1, "runs of each seed: a seed names a schedule, and does not replay it bit for bit")
	only      = flag.String("subject", "", "simulate only this subject")
	faults    = flag.String("faults", "", "only these faults, by commas; the default are all")
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// subjects are what is simulated, with the number of seeds in the gate.
var subjects = []struct {
	name  string
	make  func() (simulation.Subject, error)
	seeds int
}{
	{"copy", simulation.Copy, 4},
	{"ledger", simulation.Ledger, 6},
	{"repartition", simulation.Repartition, 6},
	{"accounts", simulation.Accounts, 14},
	{"tables", simulation.Tables, 4},
	{"links", simulation.Links, 4},
	{"joins", simulation.Joins, 2},
	{"windows", simulation.Windows, 4},
	{"all-windows", simulation.AllWindows, 2},
	{"processors", simulation.Processors, 3},
}

// TestSeeds simulates every subject with every fault. The seeds are fixed; flags choose others.
// Among the fixed ones every fault has to happen: one that does not tests nothing.
func TestSeeds(t *testing.T) {
	var happened faultCounts
	for _, s := range subjects {
		if *only != "" && *only != s.name {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			n := s.seeds
			if virtual.RaceDetector {
				n = max(n/4, 1)
			}
			if *seedCount > 0 {
				n = *seedCount
			}
			for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
				for try := range *tries {
					t.Run(fmt.Sprintf("seed=%d/try=%d", seed, try), func(t *testing.T) {
						t.Parallel()
						happened.add(s.name, simulateSeed(t, s.name, s.make, seed))
					})
				}
			}
		})
	}
	happened.log(t)
	if *seedCount > 0 || *only != "" || *faults != "" || virtual.RaceDetector || len(happened.subjects) < len(subjects) {
		return
	}
	for _, fault := range append(simulation.AllFaults(), simulation.Refused, simulation.FencedByPeer, simulation.Copied) {
		if happened.counts[fault] == 0 {
			t.Errorf("no seed has the fault %q", fault)
		}
	}
}

// faultCounts counts the faults of parallel runs.
type faultCounts struct {
	mu             sync.Mutex
	subjects       map[string]bool // that have run: -run may choose some
	counts, points map[string]int
	seeds          int
	virtual        time.Duration
}

func (c *faultCounts) add(subject string, r *simulation.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.subjects, c.counts, c.points = map[string]bool{}, map[string]int{}, map[string]int{}
	}
	c.subjects[subject] = true
	for fault, n := range r.Faults {
		c.counts[fault] += n
	}
	for point, n := range r.Points {
		c.points[point] += n
	}
	c.seeds++
	c.virtual += r.Virtual
}

// log writes what all runs had together.
func (c *faultCounts) log(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("%d runs, %s of virtual time, faults %v, failpoints %v", c.seeds, c.virtual.Round(time.Second), c.counts, c.points)
}

func simulateSeed(t *testing.T, name string, subject func() (simulation.Subject, error), seed uint64) *simulation.Result {
	t.Helper()
	// The failpoints also make databases flush often: half of the seeds do without.
	cfg := simulation.Config{Seed: seed, Failpoints: seed%2 == 0, Peers: seed%3 > 0, Standbys: int(seed % 4 / 2)}
	if *faults != "" {
		cfg.Faults = strings.Split(*faults, ",")
	}
	began := time.Now()
	result := simulate(t, subject, cfg)
	if !result.OK() {
		t.Errorf("%s\n%s\nrepeat it: go test -tags synctests,onceward_failpoints ./e2e/simulation -run TestSeeds -subject %s -seed %d -seeds 1 -tries 20",
			result.Trace, result, name, seed)
	} else {
		t.Logf("%s in %s", result, time.Since(began).Round(time.Millisecond))
	}
	return result
}

// simulate runs a subject once, in a bubble of its own.
func simulate(t *testing.T, subject func() (simulation.Subject, error), cfg simulation.Config) (result *simulation.Result) {
	t.Helper()
	virtual.Test(t, func(t *testing.T) {
		s, err := subject()
		if err != nil {
			t.Fatal(err)
		}
		result = simulation.Run(t, s, cfg)
	})
	if result == nil {
		t.FailNow()
	}
	return result
}
