package pebblestore

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// manifestFS keeps errors of the MANIFEST from Pebble, as faultFS does with those of a directory:
// the fault learns of them, which ends everything, and Pebble goes on in the belief that its change
// is written.
//
// Pebble takes such an error for the end of the process. Where it has to live on with it, it does
// not put back what it changed in memory for the version that is not there now, the places of
// tables in L0, and the next compaction that fails indexes with them. With the belief its memory
// stays consistent, the directory is frozen, and the reopening finds the MANIFEST as the last write
// left it.
type manifestFS struct {
	vfs.FS
	fault *fault
}

// Create implements vfs.FS.
func (fs manifestFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	// That of a checkpoint's copy is no concern of the database: what fails there is the
	// checkpoint.
	if err != nil || !strings.HasPrefix(fs.PathBase(name), "MANIFEST-") || !fs.fault.owns(name) {
		return f, err
	}
	return manifestFile{f, fs.fault}, nil
}

// Unwrap implements vfs.FS.
func (fs manifestFS) Unwrap() vfs.FS { return fs.FS }

type manifestFile struct {
	vfs.File
	fault *fault
}

// Write implements vfs.File. It never fails once the database is open.
func (f manifestFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if f.hides(err) {
		return len(p), nil
	}
	return n, err
}

// Sync implements vfs.File. It never fails once the database is open.
func (f manifestFile) Sync() error {
	if err := f.File.Sync(); !f.hides(err) {
		return err
	}
	return nil
}

// SyncData implements vfs.File. It never fails once the database is open.
func (f manifestFile) SyncData() error {
	if err := f.File.SyncData(); !f.hides(err) {
		return err
	}
	return nil
}

// hides reports whether err is kept from Pebble. While a database is being opened Pebble returns
// it, which is better.
func (f manifestFile) hides(err error) bool {
	if err == nil || !f.fault.opened.Load() {
		return false
	}
	f.fault.stop(err)
	return true
}
