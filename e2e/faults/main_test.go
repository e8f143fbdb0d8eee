package faults

import (
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
)

// The applications that run in processes of their own.
const (
	crashProgram   = "crash"
	restoreProgram = "restore"
)

// tests is how many tests run at a time: on real Kafka they wait for timeouts, and for the broker.
const tests = 12

func TestMain(m *testing.M) {
	cluster.InParallel(tests)
	instance.Main(m, instance.Programs{
		crashProgram:   instance.Application[crashSettings],
		restoreProgram: instance.Application[restoreSettings],
	})
}

// eachVirtual runs the cells on virtual time, each on brokers of its own.
func eachVirtual[C any](t *testing.T, cells []C, name func(C) string, run func(t *testing.T, c *cluster.Cluster, cell C)) {
	t.Helper()
	cluster.SkipWithout(t, cluster.KindVirtual)
	cluster.Cells(t, runtime.GOMAXPROCS(0), cells, name, func(t *testing.T, cell C) {
		cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) { run(t, c, cell) })
	})
	t.Logf("%d cells", len(cells))
}

// How many cells run at once on real Kafka, unless -parallel says otherwise: they wait for
// timeouts, not for processors.
const (
	requestsOnKafka = 12
	crashesOnKafka  = 6
)

// eachOnKafka runs the cells on the real Kafka that all tests share.
func eachOnKafka[C any](t *testing.T, inParallel int, cells []C, name func(C) string, run func(t *testing.T, c *cluster.Cluster, cell C)) {
	t.Helper()
	c := cluster.Kafka(t)
	cluster.Cells(t, inParallel, cells, name, func(t *testing.T, cell C) { run(t, c, cell) })
	t.Logf("%d cells", len(cells))
}

// newProducer returns a client that writes each record to the partition that it names.
func newProducer(t *testing.T, c *cluster.Cluster) *kgo.Client {
	t.Helper()
	return c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// virtualPatience bounds the waits on virtual time. They cost nothing there, and the timeouts of
// production are long.
const virtualPatience = 10 * time.Minute

const pollInterval = 5 * time.Millisecond

// await waits until missing returns no error any more. It fails the test with the last error after
// the patience.
func await(t *testing.T, patience time.Duration, what string, missing func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for err := missing(); err != nil; err = missing() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
		<-tick.C
	}
}
