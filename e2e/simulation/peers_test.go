package simulation_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/simulation"
	"github.com/onceward/onceward/e2e/virtual"
)

var fencingHours = flag.Float64("fencing-hours", 0.05, "virtual hours of TestFencingAgainAndAgain; -short is what the gate has")

// TestFencingAgainAndAgain: three instances, of which one or two fence another that lives every few
// seconds, while the links between them come and go. Nothing is lost or doubled, and the
// application works off its input. Peers themselves do not fence so often: they have limits.
func TestFencingAgainAndAgain(t *testing.T) {
	if virtual.RaceDetector {
		t.Skip("TestSeeds has these faults under the race detector")
	}
	hours := *fencingHours
	if !testing.Short() && hours < 1 {
		hours = 3
	}
	for seed := *firstSeed; seed < *firstSeed+2; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			result := simulate(t, simulation.Accounts, simulation.Config{
				Seed: seed, Peers: true, Instances: 3, Rate: 4, Duration: time.Duration(hours * float64(time.Hour)),
				Faults: []string{simulation.FalseFence, simulation.FalseFence, simulation.AllFence, simulation.PeersApart, simulation.PeersFlap},
			})
			if !result.OK() {
				t.Errorf("%s\n%s", result.Trace, result)
			}
			if n, least := result.Faults[simulation.FalseFence]+result.Faults[simulation.AllFence], int(hours*60); n < least {
				t.Errorf("%d instances were fenced although they lived, want at least %d", n, least)
			}
			t.Logf("%s", result)
		})
	}
}
