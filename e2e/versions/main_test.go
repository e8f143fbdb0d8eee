// Package versions_test lets two builds of one application, this one and the next, share a group and a state directory: a rolling upgrade
// and its rollback while records are processed, one directory used by both in turn, and downgrades that have to be refused.
//
// The next build is this one with the tag onceward_next. Its state directory, its commit metadata and what its members tell the group
// have a minor version that is one higher and something in them that this build does not know. ONCEWARD_NEXT_MAJOR names those whose
// major version is one higher too: state, blob, plan.
package versions_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// builds are the paths of the two programs.
type builds struct{ this, next string }

func build(t *testing.T) builds {
	t.Helper()
	b := builds{filepath.Join(t.TempDir(), "this"), filepath.Join(t.TempDir(), "next")}
	for path, tags := range map[string]string{b.this: "", b.next: "onceward_next"} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-o", path, "github.com/onceward/onceward/e2e/versions/app")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building the application with tags %q: %v\n%s", tags, err, out)
		}
	}
	return b
}

// TestVersions builds the two programs once, for every scenario on every kind of broker.
func TestVersions(t *testing.T) {
	b := build(t)
	scenarios := func(t *testing.T, c *cluster.Cluster) {
		t.Run("turns", func(t *testing.T) { testTurns(t, newEnv(t, c, b)) })
		t.Run("newer directory", func(t *testing.T) { testNewerDirectory(t, newEnv(t, c, b)) })
		t.Run("newer plan", func(t *testing.T) { testNewerPlan(t, newEnv(t, c, b)) })
		t.Run("newer commits", func(t *testing.T) { testNewerCommits(t, newEnv(t, c, b)) })
		if testing.Short() {
			return // without the rolling upgrade and the shared group; and on the embedded broker alone, see below
		}
		t.Run("shared group", func(t *testing.T) { testSharedGroup(t, newEnv(t, c, b)) })
		t.Run("rolling", func(t *testing.T) { testRolling(t, newEnv(t, c, b)) })
	}
	if testing.Short() {
		t.Run(string(cluster.KindEmbedded), func(t *testing.T) { scenarios(t, cluster.Embedded(t)) })
		return
	}
	cluster.Each(t, scenarios)
}
