package pebblestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/onceward/onceward/state/pebblestore"
)

// unprivileged is the id of the user without rights.
const unprivileged = 65534

// TestDirectoryWithoutWriteRights is TestReadOnlyDirectory with real permissions: a directory of
// mode 0500 that belongs to another user, for a process that is not root. Root takes the identity
// of a user without rights, in this thread and for files only.
func TestDirectoryWithoutWriteRights(t *testing.T) {
	w := newWorkload(7)
	path := filepath.Join(t.TempDir(), "task")
	db, err := pebblestore.Open(path, pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Declare(w.history.Stores()...), w.history.Apply(db, 0, 3), db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o500, 0o000} {
		if os.Geteuid() == 0 {
			if err := os.Chown(path, unprivileged, unprivileged); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		asNobody(t, func() {
			db, err := pebblestore.Open(path, pebblestore.Options{})
			if err == nil {
				err = db.Close()
			}
			expectEnvironment(t, err, os.ErrPermission)
		})
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	db, err = pebblestore.Open(path, pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.history.Verify(db); err != nil || n != 3 {
		t.Errorf("afterwards at round %d: %v", n, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// asNobody calls f without the rights of root.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	dir := t.TempDir()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setfsuid(unprivileged); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setfsuid(0); err != nil {
			panic(err) // the thread must not be used again
		}
	}()
	if f, err := os.Create(filepath.Join(dir, "file")); err == nil {
		_ = f.Close()
		t.Error("a user without rights may write to a directory of root: the test tests nothing")
	}
	f()
}
