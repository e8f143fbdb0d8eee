package pebblestore_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/state/pebblestore/disktest"
)

// countingFS counts the files that are open for writing.
type countingFS struct {
	vfs.FS
	open atomic.Int64
}

func (fs *countingFS) Unwrap() vfs.FS { return fs.FS }

func (fs *countingFS) count(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	fs.open.Add(1)
	return &countedFile{f, fs}, nil
}

func (fs *countingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.count(fs.FS.Create(name, c))
}

func (fs *countingFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return fs.count(fs.FS.OpenReadWrite(name, c, o...))
}

func (fs *countingFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.count(fs.FS.ReuseForWrite(oldname, newname, c))
}

type countedFile struct {
	vfs.File
	fs *countingFS
}

func (f *countedFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}

// TestAStoppedDatabaseKeepsNoFile: whichever write the disk refuses, in Open or later, no file
// stays open. Pebble leaves one open whose last sync fails, so a task that a full disk stops again
// and again would hold a descriptor each time until the garbage collector finds it.
func TestAStoppedDatabaseKeepsNoFile(t *testing.T) {
	w := newWorkload(5)
	refusedOpen, stopped := 0, 0
	for free := int64(0); free < 64<<10; free += 1 << 10 {
		fs := &countingFS{FS: vfs.NewMem()}
		disk := disktest.New(free)
		options := pebblestore.Options{FS: fs, FlushBytes: 8 << 10}
		disk.Use(&options)
		db, err := pebblestore.Open("task", options)
		if err != nil {
			refusedOpen++
		} else if errors.Join(w.history.Apply(db, 0, len(w.history.Rounds)), db.Close()) != nil {
			stopped++
		}
		if n := fs.open.Load(); n != 0 {
			t.Fatalf("with %d bytes of disk, %d files are open after the close", free, n)
		}
	}
	if refusedOpen == 0 || stopped == 0 {
		t.Errorf("the disk refused %d opens and stopped %d databases: the test tested too little", refusedOpen, stopped)
	}
}
