package state

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Entries of a checkpoint.
const (
	checkpointFile     = "checkpoint.json"
	checkpointDatabase = "database"
)

// CheckpointTask makes dir a checkpoint of a task's database: the database as it is at one moment,
// and checkpoint.json, which says whose it is and where it is at (FORMAT.md). db is that database,
// open; it goes on meanwhile. ImportTask makes a task's database of it, in the state directory of
// another instance or of this one, and any tool can open its directory "database" in place.
//
// dir must not exist, and the directory above it must. It is there as a whole or not at all; a kill
// leaves what was not finished under the name of dir with ".partial-" and a number behind it. Large
// files are shared with the database by hard links, so that a checkpoint on the same file system
// costs little until the database has rewritten them. The error of a database without files wraps
// errors.ErrUnsupported.
func (d *Directory) CheckpointTask(subtopology string, partition int32, db Database, dir string) error {
	t := TaskDirectory{subtopology, partition}
	if err := d.checkpoint(t, db, dir); err != nil {
		return fmt.Errorf("state: checkpoint of task %s/%d to %s: %w", subtopology, partition, dir, withFull(err))
	}
	return nil
}

func (d *Directory) checkpoint(t TaskDirectory, db Database, dir string) (err error) {
	application, err := d.canCheckpoint(t)
	if err != nil {
		return err
	}
	dir = filepath.Clean(dir) // what is put behind its name is not to be in it
	switch _, err := os.Lstat(dir); {
	case err == nil:
		return fmt.Errorf("the directory is there already: %w", fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	partial := dir + ".partial-" + randomName()
	if err := os.Mkdir(partial, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	copied := filepath.Join(partial, checkpointDatabase)
	if err := db.Checkpoint(copied); err != nil {
		return err
	}
	// Opening it is the proof that it can be opened, and says where it is at.
	at, err := d.look(copied)
	if err != nil {
		return err
	}
	at.Application, at.Subtopology, at.Partition = application, t.Subtopology, t.Partition
	if err := at.write(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, dir); err != nil {
		return err
	}
	return syncParent(dir)
}

// canCheckpoint returns the application.
func (d *Directory) canCheckpoint(t TaskDirectory) (application string, err error) {
	if err := t.check(); err != nil {
		return "", err
	}
	if d.database == nil {
		return "", errors.New("the directory was opened without a way to open databases (DirectoryOptions.Open)")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return "", ErrClosed
	}
	return d.meta.Application, nil
}

// look opens a database that nobody uses and returns where it is at.
func (d *Directory) look(path string) (at checkpointMeta, err error) {
	db, err := d.database(path)
	if err != nil {
		return checkpointMeta{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	stores, err := db.Stores()
	if err != nil {
		return checkpointMeta{}, err
	}
	return newCheckpointMeta(stores, db.Positions()), nil
}

// randomName returns 16 hexadecimal digits.
func randomName() string {
	var id [8]byte
	rand.Read(id[:]) // never returns an error
	return hex.EncodeToString(id[:])
}
