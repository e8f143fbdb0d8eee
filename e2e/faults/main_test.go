package faults

import (
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// inParallel is how many cells of a kind of broker run at once, unless -parallel says otherwise: they wait for timeouts, not for
// processors.
func inParallel(k cluster.Kind) int {
	if k == cluster.KindEmbedded {
		return 4 // there are few, and beside them run those on real Kafka
	}
	return 12
}

// onEach runs f as the subtests "embedded" and "kafka", at the same time.
func onEach(t *testing.T, f func(t *testing.T, c *cluster.Cluster)) {
	t.Helper()
	cluster.Cells(t, 2, []cluster.Kind{cluster.KindKafka, cluster.KindEmbedded}, kindName, func(t *testing.T, k cluster.Kind) {
		if k == cluster.KindEmbedded {
			f(t, cluster.Embedded(t))
		} else {
			f(t, cluster.Kafka(t))
		}
	})
}

func kindName(k cluster.Kind) string { return string(k) }
