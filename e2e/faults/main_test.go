package faults

import (
	"runtime"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

func TestMain(m *testing.M) {
	cluster.InParallel(3) // the three long tests, beside each other
	cluster.Main(m)
}

// eachVirtual runs the cells on virtual time, each on brokers of its own.
func eachVirtual[C any](t *testing.T, cells []C, name func(C) string, run func(s *scenario, c C)) {
	t.Helper()
	cluster.Cells(t, runtime.GOMAXPROCS(0), cells, name, func(t *testing.T, cell C) {
		cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) { run(newScenario(t, c), cell) })
	})
}

// inParallel is how many cells run at once on real Kafka, unless -parallel says otherwise: they wait for timeouts, not for processors.
const inParallel = 12

// eachOnKafka runs the cells on real Kafka.
func eachOnKafka[C any](t *testing.T, cells []C, name func(C) string, run func(s *scenario, c C)) {
	t.Helper()
	c := cluster.Kafka(t)
	pace := c.Pace(t)
	cluster.Cells(t, inParallel, cells, name, func(t *testing.T, cell C) {
		s := newScenario(t, c)
		s.pace = pace
		run(s, cell)
	})
}
