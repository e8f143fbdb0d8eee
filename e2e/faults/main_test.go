package faults

import (
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

func TestMain(m *testing.M) {
	cluster.InParallel(3) // the three long tests, beside each other
	cluster.Main(m)
}

// inParallel is how many cells of a kind of broker run at once, unless -parallel says otherwise: they wait for timeouts, not for
// processors.
func inParallel(k cluster.Kind) int {
	if k == cluster.KindEmbedded {
		return 4 // there are few, and beside them run those on real Kafka
	}
	return 12
}
