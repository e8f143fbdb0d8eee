package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/state"
)

func TestDescription(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if _, err := state.ReadDescription(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := state.ReadDescription(t.TempDir()); !errors.Is(err, state.ErrForeign) {
		t.Errorf("a directory of somebody else: %v", err)
	}
	d := openDirectory(t, path, state.DirectoryOptions{Application: "app"})
	want := func(want string) {
		t.Helper()
		own, err := d.Description()
		if err != nil || string(own) != want || (own == nil) != (want == "") {
			t.Errorf("the directory has %q, %v; want %q", own, err, want)
		}
		// While it is open, as a tool does.
		read, err := state.ReadDescription(path)
		if err != nil || string(read) != want {
			t.Errorf("the directory at the path has %q, %v; want %q", read, err, want)
		}
	}
	want("")
	for _, description := range []string{`{"name":"one"}`, `{"name":"one"}`, `{"name":"two"}`} {
		if err := d.SetDescription([]byte(description)); err != nil {
			t.Fatal(err)
		}
		want(description)
	}
	// Files that a crash leaves are not read and do no harm.
	if err := os.WriteFile(filepath.Join(path, "topology.json.tmp"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(`{"name":"two"}`)
	if err := d.SetDescription([]byte("three")); err != nil {
		t.Fatal(err)
	}
	want("three")
	if info, err := os.Stat(filepath.Join(path, "topology.json")); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("the file is %v, %v", info, err)
	}
	// Neither is what it cannot have written.
	if err := os.Truncate(filepath.Join(path, "topology.json"), 32<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Description(); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("a file of 32 MiB: %v", err)
	}
	if err := d.SetDescription([]byte("five")); err != nil {
		t.Fatal(err)
	}
	want("five")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.SetDescription([]byte("four")); !errors.Is(err, state.ErrClosed) {
		t.Errorf("a closed directory: %v", err)
	}
}
