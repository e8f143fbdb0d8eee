package pebblestore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// Checkpoint implements state.Database. What it contains is what a crash at the moment of Pebble's
// checkpoint would leave: whole batches from the first one on. It is written to a directory beside,
// which a kill leaves there under the name of dir with ".partial-" and a number behind it, and
// which nobody uses. Close does not wait for tables that have to be copied: the checkpoint fails.
func (d *database) Checkpoint(dir string) error {
	if err := d.checkpoint(dir); err != nil {
		if state.IsFull(err) && !errors.Is(err, state.ErrFull) {
			err = fmt.Errorf("%w: %w", state.ErrFull, err)
		}
		return fmt.Errorf("pebblestore: checkpoint of %s to %s: %w", d.path, dir, err)
	}
	return nil
}

func (d *database) checkpoint(dir string) (err error) {
	if d.fault.owns(dir) || owns(resolved(d.path), resolved(dir)) {
		return errors.New("it would be inside the database")
	}
	if err := d.touch(); err != nil {
		return err
	}
	// Only what is in a table is in a checkpoint, as in what a crash leaves.
	if err := d.flush("checkpoint"); err != nil {
		return err
	}
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usableLocked("checkpoint"); err != nil {
		return err
	}
	disk := d.fault.fs // and not Pebble's: what is left of a checkpoint is removed after a fault too
	if err := mustNotExist(disk, dir); err != nil {
		return err
	}
	var id [8]byte
	rand.Read(id[:]) // never returns an error
	partial := filepath.Clean(dir) + ".partial-" + hex.EncodeToString(id[:])
	defer func() {
		if err != nil {
			err = errors.Join(err, disk.RemoveAll(partial))
		}
	}()
	copied := &copyFault{}
	d.fault.copying.Store(partial, copied)
	defer d.fault.copying.Delete(partial)
	if err = d.db.Checkpoint(partial); err == nil {
		err = copied.first()
	}
	if err != nil && pebble.IsCorruptionError(err) {
		d.fault.stop(err)
	}
	// After a fault what Pebble has copied may be anything.
	if stopped := d.fault.check("checkpoint"); stopped != nil {
		return stopped
	}
	if err == nil {
		err = publish(disk, partial, dir)
	}
	if err != nil {
		return d.fault.newError("checkpoint", err)
	}
	return nil
}

// touch writes the positions again, so that there is something to flush. Pebble copies as much of
// the MANIFEST as it has written since it was opened, which is nothing until the first flush: the
// copy could not be opened.
func (d *database) touch() error {
	d.applying.Lock()
	defer d.applying.Unlock()
	if err := d.usable("checkpoint"); err != nil {
		return err
	}
	b := d.db.NewBatch()
	defer releaseBatch(b)
	return d.commitDirect("checkpoint", b, d.positions.Load())
}

// copyFault is what a checkpoint's directory failed to sync. Pebble panics for it as it does for
// its own (faultFS), though all that is lost is the checkpoint.
type copyFault struct{ err atomic.Pointer[error] }

func (c *copyFault) first() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// copyDir is the directory of a checkpoint that is being written.
type copyDir struct {
	vfs.File
	fault *copyFault
}

// Sync implements vfs.File. It never fails, see copyFault.
func (d copyDir) Sync() error {
	if err := d.File.Sync(); err != nil {
		d.fault.err.CompareAndSwap(nil, &err)
	}
	return nil
}

func mustNotExist(disk vfs.FS, dir string) error {
	switch _, err := disk.Stat(dir); {
	case err == nil:
		return fmt.Errorf("the directory is there already: %w", fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// Pebble would make what is missing, with rights for everybody.
	_, err := disk.Stat(disk.PathDir(dir))
	return err
}

// publish gives a finished directory its name, durably. Nothing but the last sync can fail once it
// has the name.
func publish(disk vfs.FS, partial, dir string) error {
	above, err := disk.OpenDir(disk.PathDir(dir))
	if err != nil {
		return err
	}
	err = disk.Rename(partial, dir)
	if err == nil {
		err = above.Sync()
	}
	return errors.Join(err, above.Close())
}

// owns reports whether a path is the database's directory or inside of it. It compares paths as
// Pebble makes them, from the path that the database was opened with.
func (f *fault) owns(path string) bool { return owns(f.path, path) }

func owns(own, path string) bool {
	own, path = filepath.Clean(own), filepath.Clean(path)
	return path == own || strings.HasPrefix(path, own+string(filepath.Separator))
}

// resolved returns where a path leads, absolute and without links, as far as there is something:
// what somebody has typed can name the same place in another way. In a file system that is not the
// machine's it is some path, which is in nobody's way.
func resolved(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		if there, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(there, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}
