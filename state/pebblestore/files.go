package pebblestore

import (
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// files is a file system that knows which files are open for writing, so that a database which
// stopped can close them all. Pebble syncs some files before it closes them, and leaves one open
// whose sync fails; once the fault is there, all of them fail. Such a file would keep its
// descriptor, and the file system busy, until the garbage collector finds it.
type files struct {
	vfs.FS
	mu   sync.Mutex
	open map[*openFile]struct{}
}

func newFiles(fs vfs.FS) *files { return &files{FS: fs, open: make(map[*openFile]struct{})} }

// Create implements vfs.FS.
func (fs *files) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.track(fs.FS.Create(name, category))
}

// OpenReadWrite implements vfs.FS.
func (fs *files) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return fs.track(fs.FS.OpenReadWrite(name, category, opts...))
}

// ReuseForWrite implements vfs.FS.
func (fs *files) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.track(fs.FS.ReuseForWrite(oldname, newname, category))
}

// Unwrap implements vfs.FS.
func (fs *files) Unwrap() vfs.FS { return fs.FS }

func (fs *files) track(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	tracked := &openFile{f, fs}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.open[tracked] = struct{}{}
	return tracked, nil
}

// closeAll closes what is still open. Pebble is closed by then, or was never opened: nobody uses
// the files.
func (fs *files) closeAll() error {
	fs.mu.Lock()
	left := fs.open
	fs.open = make(map[*openFile]struct{})
	fs.mu.Unlock()
	var errs []error
	for f := range left {
		errs = append(errs, f.File.Close())
	}
	return errors.Join(errs...)
}

type openFile struct {
	vfs.File
	fs *files
}

// Close implements vfs.File.
func (f *openFile) Close() error {
	f.fs.mu.Lock()
	delete(f.fs.open, f)
	f.fs.mu.Unlock()
	return f.File.Close()
}
