package state_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
)

// TestReadOnlyDirectory: a tool reads who a directory belongs to and where its tasks are, changes
// nothing, and is kept out by an instance as it keeps an instance out.
func TestReadOnlyDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d, err := state.OpenDirectory(path, state.DirectoryOptions{Application: "app", Instance: "one", Fingerprint: "f"})
	if err != nil {
		t.Fatal(err)
	}
	place, err := d.TaskPath("in", 3)
	if err == nil {
		err = os.MkdirAll(place, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := state.Identity{Application: "app", Instance: "one", Fingerprint: "f", Format: "1.1"}
	if got, err := state.Identify(path); got != want || err != nil {
		t.Errorf("Identify of a directory in use returned %+v, %v", got, err)
	}
	if _, err := state.OpenDirectoryReadOnly(path); !errors.Is(err, state.ErrLocked) {
		t.Errorf("a directory in use gave %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(path, "trash", "left")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	one, err := state.OpenDirectoryReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	two, err := state.OpenDirectoryReadOnly(path)
	if err != nil {
		t.Fatalf("a second reader: %v", err)
	}
	if one.Identity() != want || one.Path() != path {
		t.Errorf("%+v at %s", one.Identity(), one.Path())
	}
	tasks, err := one.Tasks()
	if len(tasks) != 1 || tasks[0] != (state.TaskDirectory{Subtopology: "in", Partition: 3}) || err != nil {
		t.Errorf("tasks %v, %v", tasks, err)
	}
	if got, err := one.TaskPath(tasks[0]); got != place || err != nil {
		t.Errorf("the place is %s, %v; want %s", got, err, place)
	}
	if _, err := one.TaskPath(state.TaskDirectory{Subtopology: "in", Partition: 4}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a task that is not there gave %v", err)
	}
	if _, err := one.TaskPath(state.TaskDirectory{Subtopology: "..", Partition: 4}); err == nil {
		t.Error(`the name ".." is taken`)
	}
	if _, err := os.Stat(left); err != nil {
		t.Errorf("reading has emptied the trash: %v", err)
	}
	restore := state.SetReadersWait(50 * time.Millisecond)
	defer restore()
	if _, err := state.OpenDirectory(path, state.DirectoryOptions{Application: "app"}); !errors.Is(err, state.ErrLocked) {
		t.Errorf("an instance beside readers gave %v", err)
	}
	if err := errors.Join(one.Close(), one.Close()); err != nil {
		t.Fatal(err)
	}
	restore()
	closed := make(chan error)
	go func() { closed <- two.Close() }()
	if again, err := state.OpenDirectory(path, state.DirectoryOptions{Application: "app"}); err != nil {
		t.Errorf("an instance did not wait for the readers: %v", err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestReadOnlyDirectoryRefusals: nothing is made where nothing is.
func TestReadOnlyDirectoryRefusals(t *testing.T) {
	dir := t.TempDir()
	absent, empty, file := filepath.Join(dir, "absent"), filepath.Join(dir, "empty"), filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(empty, 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{absent: fs.ErrNotExist, empty: state.ErrForeign, file: state.ErrForeign} {
		if _, err := state.OpenDirectoryReadOnly(path); !errors.Is(err, want) {
			t.Errorf("%s gave %v, want %v", filepath.Base(path), err, want)
		}
		if _, err := state.Identify(path); !errors.Is(err, want) {
			t.Errorf("Identify of %s gave %v, want %v", filepath.Base(path), err, want)
		}
	}
	if entries, err := os.ReadDir(empty); len(entries) > 0 || err != nil {
		t.Errorf("the empty directory has %v, %v", entries, err)
	}
}
