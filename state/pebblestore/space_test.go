package pebblestore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/state/pebblestore/disktest"
	"github.com/onceward/onceward/state/statetest"
)

// TestFullDisk: a full disk stops the database with an error that says so, wherever it is met; what
// was durable before is there again when there is space, and the rest can be applied anew.
func TestFullDisk(t *testing.T) {
	w := newWorkload(5)
	fs := vfs.NewMem()
	disk := disktest.New(0)
	options := pebblestore.Options{FS: fs, FlushBytes: 8 << 10}
	disk.Use(&options)
	if db, err := pebblestore.Open("task", options); !errors.Is(err, state.ErrFull) {
		t.Fatalf("a new database on a full disk: %v, %v", db, err)
	}
	// Whatever number of bytes there is: what was done with them is whole rounds.
	at := 0
	for free := int64(1 << 10); at < len(w.history.Rounds); free += 1 << 10 {
		disk.SetFree(free)
		db, err := pebblestore.Open("task", options)
		if err != nil {
			expectFull(t, err)
			continue
		}
		n, err := w.history.Verify(db)
		if err != nil || n < at {
			t.Fatalf("opened with %d bytes at round %d, %d were durable: %v", free, n, at, err)
		}
		for ; n < len(w.history.Rounds); n++ {
			if err = w.history.Apply(db, n, n+1); err != nil {
				break
			}
			if err = db.Flush(); err != nil {
				break
			}
			at = n + 1
		}
		closeErr := db.Close()
		for _, err := range []error{err, closeErr} {
			if err != nil {
				expectFull(t, err)
			}
		}
	}
	if disk.Refused() == 0 {
		t.Error("the disk was never full")
	}
}

func expectFull(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, state.ErrFull) || !errors.Is(err, state.ErrFailed) || errors.Is(err, state.ErrCorrupt) {
		t.Fatalf("a full disk is reported as %v", err)
	}
	if text := err.Error(); !strings.Contains(text, "task") || !strings.Contains(text, "bytes are free") {
		t.Errorf("the error does not say where and how much is free: %v", err)
	}
}

// TestFullDiskInEveryMethod: after a flush in the background has met a full disk, every method says
// so.
func TestFullDiskInEveryMethod(t *testing.T) {
	history := statetest.NewHistory(newWorkload(5).rng, 4, 40, 200)
	disk := disktest.New(1 << 30)
	options := pebblestore.Options{FS: vfs.NewMem()}
	disk.Use(&options)
	db, err := pebblestore.Open("task", options)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Declare(history.Stores()...), history.Apply(db, 0, 3)); err != nil {
		t.Fatal(err)
	}
	view, err := db.View()
	if err != nil {
		t.Fatal(err)
	}
	disk.SetFree(0)
	expectFull(t, db.Flush())
	store := state.IDOf(history.Stores()[0].Name)
	_, _, getErr := db.Get(store, []byte("key-01"))
	_, _, viewErr := view.Get(store, []byte("key-01"))
	_, newViewErr := db.View()
	var scanErr error
	for _, scanErr = range db.Scan(store, state.Range{}) {
	}
	for name, err := range map[string]error{
		"get": getErr, "get from view": viewErr, "view": newViewErr, "scan": scanErr, "flush": db.Flush(),
		"apply": history.Apply(db, 3, 4), "declare": db.Declare(state.KeyValues("new")...), "close": db.Close(),
	} {
		if !errors.Is(err, state.ErrFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckSpace: there is space when there is room for what a database may hold in memory, and a
// file can be written. The file is gone afterwards.
func TestCheckSpace(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("dir", 0o700); err != nil {
		t.Fatal(err)
	}
	disk := disktest.New(0)
	options := pebblestore.Options{FS: fs, FlushBytes: 100 << 10}
	disk.Use(&options)
	for _, tc := range []struct {
		free  int64
		space bool
	}{{0, false}, {399 << 10, false}, {400 << 10, true}} {
		disk.SetFree(tc.free)
		err := pebblestore.CheckSpace("dir", options)
		if tc.space != (err == nil) || err != nil && !errors.Is(err, state.ErrFull) {
			t.Errorf("with %d bytes: %v", tc.free, err)
		}
		if err != nil && (!strings.Contains(err.Error(), fmt.Sprint(tc.free, " bytes are free in dir"))) {
			t.Errorf("the error does not say where and how much is free: %v", err)
		}
		if n, ok := pebblestore.FreeBytes("dir", options); !ok || n > uint64(tc.free) {
			t.Errorf("with %d bytes FreeBytes returns %d, %v", tc.free, n, ok)
		}
	}
	// A quota is not in the number.
	if err := pebblestore.CheckSpace("dir", pebblestore.Options{FS: quotaFS{fs}}); !errors.Is(err, state.ErrFull) {
		t.Errorf("with a quota that is used up: %v", err)
	}
	names, err := fs.List("dir")
	if err != nil || slices.Contains(names, "space.tmp") {
		t.Errorf("the directory has %q (%v)", names, err)
	}
	if err := pebblestore.CheckSpace("absent", pebblestore.Options{FS: fs}); err == nil || errors.Is(err, state.ErrFull) {
		t.Errorf("without a directory: %v", err)
	}
}

// quotaFS lets files be created and nothing be written to them.
type quotaFS struct{ vfs.FS }

func (fs quotaFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	disk := disktest.New(0)
	o := pebblestore.Options{FS: oneFile{fs.FS, f}}
	disk.Use(&o)
	disk.SetFree(64)
	return o.FS.Create(name, c)
}

// oneFile returns the file that was created before.
type oneFile struct {
	vfs.FS
	file vfs.File
}

func (fs oneFile) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return fs.file, nil }
