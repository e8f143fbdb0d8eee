//go:build onceward_failpoints

package soak

import (
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/testapp"
)

// The seeds of a mechanism. The next one is for the case that the kills of the one before have met
// nothing.
const (
	firstSeed = uint64(3)
	seeds     = 3
)

// TestBroken runs small soaks with one mechanism broken each, and with none. Instances need the
// build tag for it. A soak that does not find the broken mechanism proves nothing. The moment of a
// kill is random: a mechanism counts as missed only if no seed finds it.
//
// In the gate the simulation finds the same mechanisms (e2e/simulation,
// TestBrokenMechanismsAreFound).
func TestBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	for _, c := range []struct {
		broken string
		// found is what has to be found; whatever else follows from it may be found too.
		found check.Kind
	}{
		{"", ""},
		{"apply", check.StateDiffers},            // the round goes to the databases before its transaction has ended
		{"offsets", check.Torn},                  // positions are committed outside of the transaction
		{"uncommitted", check.Duplicate},         // the group reads what is not committed
		{"restore", check.StateDiffers},          // a restore ends before the position that the offsets name
		{testapp.BrokenDedupe, check.DedupeLeak}, // no id is ever seen twice
	} {
		t.Run("broken="+c.broken, func(t *testing.T) {
			if c.broken == "" {
				if !brokenSoak(t, c.broken, firstSeed).OK() {
					t.Error("nothing is broken, and something was found")
				}
				return
			}
			found := int64(0)
			for seed := firstSeed; seed < firstSeed+seeds && found == 0 && !t.Failed(); seed++ {
				t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
					found = brokenSoak(t, c.broken, seed).Report.Counts[c.found]
					t.Logf("anomalies %q: %d", c.found, found)
				})
			}
			if found == 0 {
				t.Errorf("%s is broken, and no anomaly %q was found", c.broken, c.found)
			}
		})
	}
}

// brokenSoak is a small soak with one mechanism broken, or none.
func brokenSoak(t *testing.T, broken string, seed uint64) *outcome {
	t.Helper()
	cfg := defaultConfig()
	cfg.Duration, cfg.Seed, cfg.Rate, cfg.Dir, cfg.Log = 25*time.Second, seed, 150, t.TempDir(), t.Logf
	cfg.Faults, cfg.DumpShare, cfg.Quiesce, cfg.Broken = []string{"kill"}, 1, 20*time.Second, broken
	if broken == "" {
		cfg.Quiesce = 3 * time.Minute
	}
	return soak(t.Context(), t, cluster.Own(t, cluster.KindKafka), cfg)
}
