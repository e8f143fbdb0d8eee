package simulation_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/e2e/simulation"
	"github.com/onceward/onceward/e2e/virtual"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed")
	seedCount = flag.Int("seeds", 0, "number of seeds for each subject, 0 for the fixed ones of the gate")
	tries     = flag.Int("tries", 1, "runs of each seed")
	only      = flag.String("subject", "", "run only this subject")
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// subjects are what is simulated, with the number of seeds in the gate.
var subjects = []struct {
	name  string
	make  func() (simulation.Subject, error)
	seeds int
}{
	{"copy", simulation.Copy, 10},
	{"ledger", simulation.Ledger, 20},
	{"repartition", simulation.Repartition, 20},
	{"accounts", simulation.Accounts, 20},
	{"tables", simulation.Tables, 10},
	{"windows", simulation.Windows, 10},
	{"processors", simulation.Processors, 4},
}

// TestSeeds simulates every subject with every fault.
func TestSeeds(t *testing.T) {
	for _, s := range subjects {
		if *only != "" && *only != s.name {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			n := s.seeds
			if *seedCount > 0 {
				n = *seedCount
			}
			for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
				for try := range *tries {
					t.Run(fmt.Sprintf("seed=%d/try=%d", seed, try), func(t *testing.T) {
						began := time.Now()
						result := simulate(t, s.make, simulation.Config{Seed: seed, Failpoints: seed%2 == 0})
						if !result.OK() {
							t.Errorf("%s\n%s", result.Trace, result)
						}
						t.Logf("%s in %s", result, time.Since(began).Round(time.Millisecond))
					})
				}
			}
		})
	}
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
