//go:build onceward_failpoints

package runtime_test

import (
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
)

// TestCommitThatNeverArrivesBroken is the negative control of TestCommitThatNeverArrives: the next
// round does not wait. Its offsets are committed, and the input of the first round is lost.
func TestCommitThatNeverArrivesBroken(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := newAppScene(t, c)
		fed := e.dropCommit(func(c *txn.Config) { *c = c.WithFailpoints(nil, "early") })
		if out := e.Records(t, e.out); len(out) >= fed {
			t.Errorf("%d records of %d are in the output: rounds do not wait for each other, and nothing is lost", len(out), fed)
		}
	})
}
