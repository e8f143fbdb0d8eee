package figures

import (
	"testing"

	"github.com/onceward/onceward/bench/comparison"
	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/throughput"
	"github.com/onceward/onceward/e2e/cluster"
)

// TestMain lets the test binary be an instance too: a process of its own, which the scenarios can
// kill.
func TestMain(m *testing.M) {
	latency.RunInstance()
	throughput.RunInstance()
	comparison.RunInstance() // and those of package restoretime
	cluster.Main(m)
}
