package failpoint_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/txn/internal/failpoint"
)

func TestPointsAreNamedOnce(t *testing.T) {
	seen := map[failpoint.Point]bool{}
	for _, p := range failpoint.Points {
		if seen[p] || !failpoint.Known(p) {
			t.Errorf("point %s is named twice, or not known", p)
		}
		seen[p] = true
	}
}

// TestReleaseHasNone: the command as users build it contains no name of a point and does not know the variable; the one with the tag
// does, or the test would prove nothing.
func TestReleaseHasNone(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command twice")
	}
	for tags, want := range map[string]bool{"": false, "onceward_failpoints": true} {
		binary := filepath.Join(t.TempDir(), "onceward")
		build := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-o", binary, "github.com/onceward/onceward/cmd/onceward")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building with tags %q: %v\n%s", tags, err, out)
		}
		data, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"ONCEWARD_FAILPOINT", "offsets-before", "injected by a failpoint"} {
			if got := bytes.Contains(data, []byte(text)); got != want {
				t.Errorf("tags %q: the binary contains %q: %v", tags, text, got)
			}
		}
	}
}
