package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onceward/onceward/state"
)

// TestGlobals: a global table has a place of its own, which no task has. It is removed and replaced
// as a whole, and names that lead out of the directory are refused.
func TestGlobals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d := openDirectory(t, path, state.DirectoryOptions{Application: "app"})
	put := func(dir, content string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(stores ...string) {
		t.Helper()
		got, err := d.Globals()
		if err != nil || !slices.Equal(got, stores) {
			t.Errorf("the global tables are %v (%v), want %v", got, err, stores)
		}
	}
	want()
	for _, store := range []string{"rates", "cities"} {
		place, err := d.GlobalPath(store)
		if err != nil || place != filepath.Join(path, "globals", store) {
			t.Fatalf("the place is %s, %v", place, err)
		}
		put(place, "old")
	}
	want("cities", "rates")
	if tasks, err := d.Tasks(); len(tasks) > 0 || err != nil {
		t.Errorf("there are tasks: %v, %v", tasks, err)
	}
	beside, err := d.GlobalRebuildPath("rates")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.ReplaceGlobal("rates"); err == nil {
		t.Error("a table was replaced by nothing")
	}
	put(beside, "new")
	if err := d.ReplaceGlobal("rates"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(path, "globals", "rates", "file")); string(text) != "new" || err != nil {
		t.Errorf("the file is %q, %v", text, err)
	}
	if err := errors.Join(d.RemoveGlobal("cities"), d.RemoveGlobal("cities")); err != nil {
		t.Fatal(err)
	}
	want("rates")
	if left, err := os.ReadDir(filepath.Join(path, "trash")); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool {
		return e.Name() != "rebuild-global"
	}) {
		t.Errorf("the trash has %v, %v", left, err)
	}
	for _, store := range []string{"", "..", "a/b"} {
		if _, err := d.GlobalPath(store); err == nil {
			t.Errorf("the store %q has a place", store)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.GlobalPath("rates"); !errors.Is(err, state.ErrClosed) {
		t.Errorf("a closed directory answers %v", err)
	}
	read, err := state.OpenDirectoryReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if stores, err := read.Globals(); err != nil || !slices.Equal(stores, []string{"rates"}) {
		t.Errorf("read are %v, %v", stores, err)
	}
	if place, err := read.GlobalPath("rates"); err != nil || place != filepath.Join(path, "globals", "rates") {
		t.Errorf("the place is %s, %v", place, err)
	}
}
