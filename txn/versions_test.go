package txn_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn"
)

// TestNewerDatabase: a task whose database is that of a newer build, although the directory is not,
// stops alone and says why. Its files stay as they are, and its neighbour goes on. Package
// e2e/operations has the other formats, with two builds.
func TestNewerDatabase(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		dir := t.TempDir()
		cfg := b.config(txn.Config{StateDir: dir, Workers: 1})
		_, stop := start(t, countTopology(t), cfg)
		feed(t, b, 200)
		b.read(t, "out", 200)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		task := filepath.Join(dir, "tasks", "in", "0")
		// How Pebble names its version.
		if err := os.WriteFile(filepath.Join(task, "marker.format-version.999999.999"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		before := names(t, task)
		app, stop := start(t, countTopology(t), cfg)
		waitFor(t, "one task to stop and one to run", func() bool {
			tasks := app.Status().Tasks
			return len(tasks) == 2 && tasks[0].State == txn.TaskStopped && tasks[1].State == txn.TaskRunning
		})
		if reason := app.Status().Tasks[0].Reason; !strings.Contains(reason, "its database is that of a newer build") {
			t.Errorf("the task stopped because of %q", reason)
		}
		feed(t, b, 200)
		b.read(t, "out", 300)
		if err := stop(); !errors.Is(err, txn.ErrStopped) || !errors.Is(err, state.ErrFormat) || errors.Is(err, txn.ErrIntegrity) {
			t.Errorf("Run returned %v, want ErrStopped because of ErrFormat", err)
		}
		if after := names(t, task); !slices.Equal(after, before) {
			t.Errorf("the files are %q, were %q", after, before)
		}
	})
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
