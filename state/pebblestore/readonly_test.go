package pebblestore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// TestOpenReadOnly reads what a closed and what a killed database left behind, and changes neither.
func TestOpenReadOnly(t *testing.T) {
	live := filepath.Join(t.TempDir(), "live")
	db := open(t, live, pebblestore.Options{})
	if err := db.Declare(state.KeyValues("s")...); err != nil {
		t.Fatal(err)
	}
	mustApply(t, db, 0, write("a", "1"))
	mustApply(t, db, 1, write("b", "2"))
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	mustApply(t, db, 2, write("c", "3"))
	killed := filepath.Join(t.TempDir(), "killed") // a copy of the files as they are: c is in memory only
	if err := os.CopyFS(killed, os.DirFS(live)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	for _, tc := range []struct {
		path string
		rows int
	}{{killed, 2}, {live, 3}} {
		before := listing(t, tc.path)
		r, err := pebblestore.OpenReadOnly(tc.path, pebblestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := pebblestore.OpenReadOnly(tc.path, pebblestore.Options{}) // readers do not exclude each other
		if err != nil {
			t.Fatal(err)
		}
		if !r.Positions().Same(at(int64(tc.rows))) {
			t.Errorf("positions %v, want %d rounds", r.Positions(), tc.rows)
		}
		var keys string
		for e, err := range r.Scan(state.IDOf("s"), state.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			keys += string(e.Key)
		}
		if keys != "abc"[:tc.rows] {
			t.Errorf("scan found %q", keys)
		}
		if names, err := r.Stores(); fmt.Sprint(names, err) != "[{s keyvalue}] <nil>" {
			t.Errorf("stores %v, %v", names, err)
		}
		if v, ok, err := second.Get(state.IDOf("s"), []byte("b")); string(v) != "2" || !ok || err != nil {
			t.Errorf("get returned %q, %t, %v", v, ok, err)
		}
		e, ok, err := pebblestore.EstimateOf(r, state.IDOf("s"))
		if !ok || err != nil || e.DiskBytes <= 0 || e.Keys < 1 || e.Keys > 100 {
			t.Errorf("estimate %+v, %t, %v", e, ok, err)
		}
		if e, _, err := pebblestore.EstimateOf(r, state.IDOf("other")); e != (pebblestore.Estimate{}) && e.Keys > 5 || err != nil {
			t.Errorf("estimate of a store without rows: %+v, %v", e, err)
		}
		for range 2 {
			if err := errors.Join(r.Close(), second.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := r.Get(state.IDOf("s"), []byte("a")); !errors.Is(err, state.ErrClosed) {
			t.Errorf("get after Close returned %v", err)
		}
		if after := listing(t, tc.path); after != before {
			t.Errorf("reading has changed the directory\nbefore:\n%safter:\n%s", before, after)
		}
	}
}

// TestOpenReadOnlyRefusals: what is no database, or a damaged one, is not read.
func TestOpenReadOnlyRefusals(t *testing.T) {
	if _, err := pebblestore.OpenReadOnly(filepath.Join(t.TempDir(), "absent"), pebblestore.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there gave %v", err)
	}
	if _, err := pebblestore.OpenReadOnly(t.TempDir(), pebblestore.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory gave %v", err)
	}
	damaged := t.TempDir()
	mustClose(t, open(t, damaged, pebblestore.Options{}))
	manifests, err := filepath.Glob(filepath.Join(damaged, "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, name := range manifests {
		if err := os.WriteFile(name, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pebblestore.OpenReadOnly(damaged, pebblestore.Options{}); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("a damaged MANIFEST gave %v", err)
	}
}

// listing describes every file of a directory with its time and its content.
func listing(t *testing.T, dir string) (out string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var content []byte
		if !e.IsDir() {
			if content, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		out += fmt.Sprintf("%s %v %d %x\n", e.Name(), info.ModTime().UnixNano(), info.Size(), content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
