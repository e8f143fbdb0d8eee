package flights

import (
	"os"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

// TestMain lets the test binary be the pipeline too: a process of its own, which the scenario can kill.
func TestMain(m *testing.M) {
	if settings := os.Getenv(envPipeline); settings != "" {
		os.Exit(runPipeline(settings))
	}
	cluster.Main(m)
}
