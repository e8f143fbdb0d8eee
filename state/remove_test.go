package state

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReplaceMovesBeforeItRemoves: the new database has its place before a single file of the old
// one is removed, which can take long, and while those are removed the directory is there for
// others.
func TestReplaceMovesBeforeItRemoves(t *testing.T) {
	base, task := t.TempDir(), TaskDirectory{"in", 3}
	d, err := OpenDirectory(base, DirectoryOptions{Application: "app"})
	if err != nil {
		t.Fatal(err)
	}
	place, err := d.TaskPath(task.Subtopology, task.Partition)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := d.RebuildPath(task.Subtopology, task.Partition)
	if err != nil {
		t.Fatal(err)
	}
	for dir, text := range map[string]string{place: "old", beside: "new"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trash, err := d.replace(task)
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{place: "new", filepath.Join(base, trash): "old"} {
		if text, err := os.ReadFile(filepath.Join(dir, "file")); string(text) != want {
			t.Errorf("%s has %q (%v), want %q", dir, text, err, want)
		}
	}
	if d.mu.TryLock() {
		d.mu.Unlock()
	} else {
		t.Error("the directory is locked while files are removed")
	}
	if err := d.removeTrash(trash); err != nil {
		t.Fatal(err)
	}
	// With nothing to put there the old one stays.
	if _, err := d.replace(task); err == nil {
		t.Error("a task was replaced by nothing")
	}
	if text, err := os.ReadFile(filepath.Join(place, "file")); string(text) != "new" {
		t.Errorf("the task has %q (%v), want the last one", text, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
