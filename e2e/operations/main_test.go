package operations_test

import (
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

func TestMain(m *testing.M) {
	cluster.InParallel(5) // on real Kafka they wait for transactions and sessions to end, and ten seconds for each watermark that is too low
	instance.Main(m, instance.Programs{upgradeProgram: instance.Application[upgradeSettings]})
}

// countRecord counts records per key and writes every count. A record with the value "poison"
// fails.
func countRecord(
	c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, int64],
) error {
	if r.Value == "poison" {
		return topology.Fail(topology.Validation, schemas.Reason("poison"))
	}
	n, _, err := counts.Get(r.Key)
	if err != nil {
		return err
	}
	if err := counts.Put(r.Key, n+1); err != nil {
		return err
	}
	return emit(c, topology.WithValue(r, n+1))
}
