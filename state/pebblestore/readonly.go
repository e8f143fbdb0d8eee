package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// OpenReadOnly opens the database in the directory path for reading and changes nothing in it: no
// file is made, removed or written, and what a crash left behind stays. The caller's lock on the
// state directory (state.OpenDirectoryReadOnly) keeps writers away; the lock in here is not taken,
// because that would write.
//
// Errors wrap those of Open, and fs.ErrNotExist if there is no database.
func OpenReadOnly(path string, o Options) (state.ReadOnlyDatabase, error) {
	o.setDefaults()
	f := newFault(path, o.Logger, o.FS)
	db, lock, err := openPebbleReadOnly(path, o, f)
	if err != nil {
		return nil, fmt.Errorf("pebblestore: %w", err)
	}
	d := newDatabase(path, db, lock, f, o)
	if err := d.loadReadOnly(); err != nil {
		return nil, errors.Join(err, d.abandon())
	}
	f.opened.Store(true)
	return &readOnly{Reader: d, d: d}, nil
}

func openPebbleReadOnly(path string, o Options, f *fault) (_ *pebble.DB, _ *pebble.Lock, err error) {
	o.FS = unlockedFS{o.FS}
	if err := checkFormat(path, o, f); err != nil {
		return nil, nil, err
	}
	switch found, err := pebble.Peek(path, o.FS); {
	case err != nil:
		return nil, nil, f.newError("open", err)
	case !found.Exists:
		return nil, nil, fmt.Errorf("open %s: there is no database: %w", path, fs.ErrNotExist)
	}
	lock, err := pebble.LockDirectory(path, o.FS)
	if err != nil {
		return nil, nil, f.newError("lock", err)
	}
	options := pebbleOptions(o, f)
	options.Lock, options.ReadOnly = lock, true
	db, err := pebble.Open(path, options)
	if stopped := f.check("open"); stopped != nil && err == nil {
		_ = db.Close() // stopped is the reason of whatever this says
		err = stopped
	}
	if err != nil {
		e := f.newError("open", err)
		if !environmental(err) {
			e.class = state.ErrCorrupt
		}
		return nil, nil, errors.Join(e, lock.Close())
	}
	return db, lock, nil
}

// loadReadOnly is load for a database that must not be initialised: one that was never written to
// is empty.
func (d *database) loadReadOnly() error {
	_, found, err := getRaw(d.db, formatKey)
	if err = d.fault.read("open", err); err != nil {
		return err
	}
	if found {
		return d.load()
	}
	it, err := d.db.NewIter(nil)
	if err = d.fault.read("open", err); err != nil {
		return err
	}
	empty := !it.First()
	if err := d.fault.read("open", errors.Join(it.Error(), it.Close())); err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("pebblestore: open %s: %w: there is data but no format", d.path, state.ErrCorrupt)
	}
	d.positions.Store(&state.Positions{})
	return nil
}

// unlockedFS does not lock.
type unlockedFS struct{ vfs.FS }

func (unlockedFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// readOnly implements state.ReadOnlyDatabase. Below it nothing is ever applied, and there is no
// flusher.
type readOnly struct {
	state.Reader
	d         *database
	closeOnce sync.Once
}

// Stores implements state.ReadOnlyDatabase.
func (r *readOnly) Stores() ([]state.Declaration, error) { return r.d.Stores() }

// Close implements state.View. Scans that are still open fail with ErrClosed from then on.
func (r *readOnly) Close() (err error) {
	r.closeOnce.Do(func() { err = r.d.abandon() })
	return err
}
