package differential

import (
	"flag"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

var (
	casesPerOperator = flag.Int("cases", 100, "random cases of each operator; make verify-differential has 1,000")
	seed             = flag.Uint64("seed", 1, "seed of the random cases")
)

func TestMain(m *testing.M) { cluster.Main(m) }
