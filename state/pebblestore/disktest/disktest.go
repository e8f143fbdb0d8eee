// Package disktest has a disk that fills up, or breaks in one place, for tests of what happens
// then.
//
// A Disk lies over a directory of the real file system and gives files a budget. Each write takes
// from it, and nothing gives back; when it is used up, writes fail with ENOSPC, as on a full disk,
// and removing works. It is simpler than a small file system and needs no privileges. It knows
// nothing of blocks, nor of what a file system keeps for itself: tests on a real one are not
// replaced by it. Where the disk is broken, writes fail with EIO, and what was written before can
// be read and removed.
package disktest

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state/pebblestore"
)

// Disk is a file system with a budget. All methods may be called by any number of goroutines.
type Disk struct {
	free    atomic.Int64
	refused atomic.Int64
	// broken is the directory below which writes fail, nil for none.
	broken atomic.Pointer[string]
}

// New returns a disk with so many bytes free.
func New(free int64) *Disk {
	d := &Disk{}
	d.free.Store(free)
	return d
}

// SetFree fills the disk up, or makes room.
func (d *Disk) SetFree(bytes int64) { d.free.Store(bytes) }

// Break makes every write below a directory fail with an I/O error, instead of what an earlier call
// has named; the empty string repairs the disk.
func (d *Disk) Break(dir string) {
	if dir == "" {
		d.broken.Store(nil)
		return
	}
	below := filepath.Clean(dir) + string(filepath.Separator)
	d.broken.Store(&below)
}

// Refused returns how often something was refused: without it a test of a full disk has tested
// nothing.
func (d *Disk) Refused() int64 { return d.refused.Load() }

// Use makes a database lie on the disk.
func (d *Disk) Use(o *pebblestore.Options) {
	under := o.FS
	if under == nil {
		under = vfs.Default
	}
	o.FS = diskFS{under, d}
}

// take takes bytes from the budget, all of them or none.
func (d *Disk) take(op, name string, bytes int64) error {
	if below := d.broken.Load(); below != nil && strings.HasPrefix(name, *below) {
		d.refused.Add(1)
		return &os.PathError{Op: op, Path: name, Err: syscall.EIO}
	}
	for {
		free := d.free.Load()
		if free < bytes {
			d.refused.Add(1)
			return &os.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
		}
		if d.free.CompareAndSwap(free, free-bytes) {
			return nil
		}
	}
}

// entryBytes is what a new name costs.
const entryBytes = 64

type diskFS struct {
	vfs.FS
	disk *Disk
}

// Unwrap implements vfs.FS.
func (fs diskFS) Unwrap() vfs.FS { return fs.FS }

// GetDiskUsage implements vfs.FS.
func (fs diskFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: uint64(max(fs.disk.free.Load(), 0))}, nil
}

// Create implements vfs.FS.
func (fs diskFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.disk.take("create", name, entryBytes); err != nil {
		return nil, err
	}
	f, err := fs.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return diskFile{f, name, fs.disk}, nil
}

// MkdirAll implements vfs.FS.
func (fs diskFS) MkdirAll(name string, mode os.FileMode) error {
	if _, err := fs.Stat(name); err == nil {
		return nil
	}
	if err := fs.disk.take("mkdir", name, entryBytes); err != nil {
		return err
	}
	return fs.FS.MkdirAll(name, mode)
}

// Link implements vfs.FS.
func (fs diskFS) Link(oldname, newname string) error {
	if err := fs.disk.take("link", newname, entryBytes); err != nil {
		return err
	}
	return fs.FS.Link(oldname, newname)
}

// OpenReadWrite implements vfs.FS.
func (fs diskFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, c, o...)
	if err != nil {
		return nil, err
	}
	return diskFile{f, name, fs.disk}, nil
}

// ReuseForWrite implements vfs.FS.
func (fs diskFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname, c)
	if err != nil {
		return nil, err
	}
	return diskFile{f, newname, fs.disk}, nil
}

type diskFile struct {
	vfs.File
	name string
	disk *Disk
}

func (f diskFile) Write(p []byte) (int, error) {
	if err := f.disk.take("write", f.name, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f diskFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.disk.take("write", f.name, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}
