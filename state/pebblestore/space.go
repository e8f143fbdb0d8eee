package pebblestore

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// spaceFactor times Options.FlushBytes have to be free before a database that met a full disk is
// worth another try: backlogFactor of them may be in memory and go down first, and one is left for
// a compaction to begin.
const spaceFactor = backlogFactor + 1

// spaceFile is what CheckSpace writes. It is there for a moment; a kill leaves it, and the next
// check replaces it.
const spaceFile = "space.tmp"

// spaceFileBytes is enough to need blocks of its own on every file system.
const spaceFileBytes = 64 << 10

// FreeBytes returns how much this process may write to the file system of the directory; ok is
// false where the file system does not say.
func FreeBytes(dir string, o Options) (bytes uint64, ok bool) {
	o.setDefaults()
	return freeBytes(o.FS, dir)
}

func freeBytes(fs vfs.FS, dir string) (bytes uint64, ok bool) {
	if fs == nil {
		return 0, false
	}
	usage, err := fs.GetDiskUsage(dir)
	return usage.AvailBytes, err == nil
}

// CheckSpace reports whether a database with these options is worth opening again in dir after
// state.ErrFull: nil if there is room for what it may hold in memory and a small file can be
// written, synced and removed. The file is for what the number does not tell, such as quotas and
// inodes. While there is no space, the error wraps state.ErrFull and names the directory and what
// is free. dir exists; one call at a time for each directory.
func CheckSpace(dir string, o Options) error {
	o.setDefaults()
	free, known := freeBytes(o.FS, dir)
	if need := uint64(spaceFactor * o.FlushBytes); known && free < need {
		return fmt.Errorf("pebblestore: check space: %w: %d bytes are free in %s, %d are needed to go on",
			state.ErrFull, free, dir, need)
	}
	err := writeSpaceFile(o.FS, o.FS.PathJoin(dir, spaceFile))
	if state.IsFull(err) {
		err = fmt.Errorf("%w: %d bytes are free in %s: %w", state.ErrFull, free, dir, err)
	}
	if err != nil {
		return fmt.Errorf("pebblestore: check space: %w", err)
	}
	return nil
}

// writeSpaceFile writes the file, removes it, and returns what went wrong first.
func writeSpaceFile(fs vfs.FS, name string) error {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	// Not zeros: some file systems store those as nothing.
	_, err = f.Write(bytes.Repeat([]byte{0xa5}, spaceFileBytes))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), fs.Remove(name))
}
