package pebblestore

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// copyingDisk has no hard links, as between two file systems. The first write of the first table
// that is copied tells begun and waits for goOn.
type copyingDisk struct {
	vfs.FS
	once  sync.Once
	begun chan struct{}
	goOn  <-chan struct{}
}

func (d *copyingDisk) Link(string, string) error { return errors.New("no hard links here") }

func (d *copyingDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if err != nil || !strings.Contains(name, ".partial-") || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return copiedFile{f, d}, nil
}

type copiedFile struct {
	vfs.File
	disk *copyingDisk
}

func (f copiedFile) Write(p []byte) (int, error) {
	f.disk.once.Do(func() {
		close(f.disk.begun)
		<-f.disk.goOn
	})
	return f.File.Write(p)
}

// TestCloseEndsACheckpoint: a checkpoint that copies its tables does not hold up whoever closes the
// database, a task that is taken away for instance. It fails, and leaves nothing.
func TestCloseEndsACheckpoint(t *testing.T) {
	disk := &copyingDisk{FS: vfs.NewMem(), begun: make(chan struct{})}
	db := openForTest(t, Options{FS: disk})
	disk.goOn = db.fault.closing // which Close closes, before it waits for anything
	applyTo(t, db, 0, "a", "1")
	taken := make(chan error, 1)
	go func() { taken <- db.Checkpoint("copy") }()
	<-disk.begun
	if err := db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-taken; !errors.Is(err, state.ErrClosed) {
		t.Errorf("the checkpoint: got %v, want ErrClosed", err)
	}
	names, err := disk.List("")
	if err != nil || len(names) != 1 || names[0] != "task" {
		t.Errorf("there are %q, %v", names, err)
	}
	// The database is none the worse for it.
	again := openForTest(t, Options{FS: disk.FS})
	if v, ok, err := again.Get(state.IDOf("s"), []byte("a")); string(v) != "1" || !ok || err != nil {
		t.Errorf("reopened: %q, %t, %v", v, ok, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
