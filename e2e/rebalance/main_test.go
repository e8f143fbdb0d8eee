// Package rebalance_test lets instances of an application join, leave, die and come back, and looks at what the group does: who has
// which task, whether a plan was made at all, and how long a partition stood still.
package rebalance_test

import (
	"testing"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/cluster"
)

// TestMain lets the test binary be an instance too: a process of its own, which a scenario can kill.
func TestMain(m *testing.M) {
	measure.Run(envInstance, settings.run)
	cluster.InParallel(3) // on real Kafka they wait for sessions
	cluster.Main(m)
}
