package versions

import (
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
)

func TestMain(m *testing.M) { instance.Main(m) }

// builds are the paths of the two programs.
type builds struct{ this, next string }

func build(t *testing.T) builds {
	t.Helper()
	const app = "github.com/onceward/onceward/e2e/versions/app"
	return builds{instance.Build(t, app, ""), instance.Build(t, app, "onceward_next")}
}

// TestVersions builds the two programs once, for every scenario on every kind of broker.
func TestVersions(t *testing.T) {
	b := build(t)
	all := []scenario{
		{"rolling", testRolling}, {"shared group", testSharedGroup}, {"turns", testTurns}, {"newer directory", testNewerDirectory},
		{"newer plan", testNewerPlan}, {"newer commits", testNewerCommits},
	}
	run := func(t *testing.T, c *cluster.Cluster, scenarios []scenario) {
		name := func(s scenario) string { return s.name }
		cluster.Cells(t, inParallel, scenarios, name, func(t *testing.T, s scenario) { s.run(t, newEnv(t, c, b)) })
	}
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) { run(t, c, all) })
}

type scenario struct {
	name string
	run  func(*testing.T, *env)
}

// inParallel is how many scenarios run at once on a broker, unless -parallel says otherwise: starts and rebalances are mostly waits.
const inParallel = 2
