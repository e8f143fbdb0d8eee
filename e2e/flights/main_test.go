//go:build unix

package flights

import (
	"testing"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/cluster"
)

// TestMain lets the test binary be the pipeline too: a process of its own, which the scenario can kill.
func TestMain(m *testing.M) {
	measure.Run(envPipeline, settings.run)
	cluster.Main(m)
}
