package admin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// scratch is a directory for one temporary database at a time. Its lock tells a directory that is
// in use from one that a killed process has left.
type scratch struct {
	path string
	lock *flock.Flock
}

// Entries of a scratch directory.
const (
	scratchLock     = "LOCK"
	scratchDatabase = "replayed"
)

// newScratch makes the directory, or takes one that no process uses any more. It refuses a
// directory with anything else in it.
func newScratch(path string) (*scratch, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() != scratchLock && e.Name() != scratchDatabase {
			return nil, fmt.Errorf("%s contains %q, which this command has not written: name a directory that is empty or does not exist", path, e.Name())
		}
	}
	s := &scratch{path: path, lock: flock.New(filepath.Join(path, scratchLock), flock.SetPermissions(0o600))}
	locked, err := s.lock.TryLock()
	if err == nil && !locked {
		err = fmt.Errorf("%w: another verification works in %s", state.ErrLocked, path)
	}
	if err == nil {
		err = os.RemoveAll(s.database())
	}
	if err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

func (s *scratch) database() string { return filepath.Join(s.path, scratchDatabase) }

// open makes an empty database.
func (s *scratch) open() (state.Database, error) {
	db, err := pebblestore.Open(s.database(), pebblestore.Options{})
	if err != nil {
		return nil, fmt.Errorf("a database to replay into: %w", err)
	}
	return db, nil
}

// close removes the database.
func (s *scratch) close(db state.Database) error {
	return errors.Join(db.Close(), os.RemoveAll(s.database()))
}

// remove removes the directory. Another caller makes another one.
func (s *scratch) remove() error {
	return errors.Join(os.RemoveAll(s.path), s.lock.Close())
}
