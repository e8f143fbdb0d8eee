package state_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/state"
)

// TestReplaceTask: what is built beside a task's database takes its place as a whole, and what was
// never put there is gone at the next opening.
func TestReplaceTask(t *testing.T) {
	base := t.TempDir()
	open := func() *state.Directory {
		d, err := state.OpenDirectory(base, state.DirectoryOptions{Application: "app"})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := open()
	place, err := d.TaskPath("in", 3)
	if err != nil {
		t.Fatal(err)
	}
	write(place, "old")
	holds := func(want string) {
		t.Helper()
		if text, err := os.ReadFile(filepath.Join(place, "file")); string(text) != want {
			t.Errorf("the task has %q (%v), want %q", text, err, want)
		}
	}
	if err := d.ReplaceTask("in", 3); err == nil {
		t.Error("a task was replaced by nothing")
	}
	holds("old")
	beside, err := d.RebuildPath("in", 3)
	if err != nil {
		t.Fatal(err)
	}
	write(beside, "half")
	if beside, err = d.RebuildPath("in", 3); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(beside); !os.IsNotExist(err) {
		t.Errorf("an earlier try is still there: %v", err)
	}
	write(beside, "new")
	holds("old")
	if err := d.ReplaceTask("in", 3); err != nil {
		t.Fatal(err)
	}
	holds("new")
	if tasks, err := d.Tasks(); len(tasks) != 1 || err != nil {
		t.Errorf("the tasks are %v (%v), want one", tasks, err)
	}
	if beside, err = d.RebuildPath("in", 3); err != nil {
		t.Fatal(err)
	}
	write(beside, "killed")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open()
	defer d.Close()
	if _, err := os.Stat(beside); !os.IsNotExist(err) {
		t.Errorf("a rebuild that was killed is still there: %v", err)
	}
	holds("new")
	if _, err := d.RebuildPath("..", 3); err == nil {
		t.Error("a path outside was given")
	}
	if has, err := d.HasTask("in", 3); !has || err != nil {
		t.Errorf("HasTask is %t (%v)", has, err)
	}
	if has, err := d.HasTask("in", 4); has || err != nil {
		t.Errorf("HasTask of another is %t (%v)", has, err)
	}
}
