package state

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
)

// rebuildName is the place of a database that is built beside a task's. It is in the trash, so that
// what a process leaves that is killed over it is gone at the next start.
func (t TaskDirectory) rebuildName() string {
	return filepath.Join(trashDirectory, "rebuild", t.Subtopology, strconv.Itoa(int(t.Partition)))
}

// RebuildPath returns the path for a database that is built beside a task's and then takes its
// place, see ReplaceTask. It removes what is there from an earlier try, which must be closed. What
// is never put into its place is gone when the directory is opened the next time.
func (d *Directory) RebuildPath(subtopology string, partition int32) (string, error) {
	t := TaskDirectory{subtopology, partition}
	if err := d.prepareRebuild(t); err != nil {
		return "", fmt.Errorf("state: path to rebuild task %s/%d in %s: %w", subtopology, partition, d.path, withFull(err))
	}
	return filepath.Join(d.path, t.rebuildName()), nil
}

func (d *Directory) prepareRebuild(t place) error {
	if err := t.check(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	if err := d.root.MkdirAll(filepath.Dir(t.rebuildName()), 0o700); err != nil {
		return err
	}
	return d.root.RemoveAll(t.rebuildName())
}

// ReplaceTask puts the database at RebuildPath into the task's place. Both must be closed, and the
// new one flushed. A process that is killed in the middle leaves the old database, none, or the new
// one, never a part of one; where there is none the task is restored. An error leaves the old
// database, unless it says that the new one is in its place; files of the old one that are left are
// removed by the next OpenDirectory.
func (d *Directory) ReplaceTask(subtopology string, partition int32) error {
	t := TaskDirectory{subtopology, partition}
	if err := d.putInPlace(t); err != nil {
		return fmt.Errorf("state: replace task %s/%d in %s: %w", subtopology, partition, d.path, withFull(err))
	}
	return nil
}

// putInPlace replaces a database, and removes the old one.
func (d *Directory) putInPlace(t place) error {
	trash, err := d.replace(t)
	if err == nil {
		if err = d.removeTrash(trash); err != nil {
			err = fmt.Errorf("the new database is in its place, but files of the old one are left: %w", err)
		}
	}
	return err
}

// replace makes the two moves, one right after the other, and returns what is left of the old
// database: the moment in which a kill leaves none is short, however large that was.
func (d *Directory) replace(t place) (trash string, err error) {
	if err := t.check(); err != nil {
		return "", err
	}
	if _, err := d.root.Stat(t.rebuildName()); err != nil {
		return "", err // the old one stays where there is no new one
	}
	if err := d.prepare(t); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	trash, err = d.discardLocked(t)
	if err == nil {
		err = d.root.Rename(t.rebuildName(), t.name())
	}
	if err == nil {
		if err = syncDirectory(d.root, filepath.Dir(t.name())); err != nil {
			err = fmt.Errorf("the new database is in its place, but may not be there after a power loss: %w", err)
		}
		return trash, err
	}
	if trash != "" {
		err = errors.Join(err, d.root.Rename(trash, t.name()))
	}
	return "", err
}

// HasTask reports whether a task has a place, with or without a usable database.
func (d *Directory) HasTask(subtopology string, partition int32) (bool, error) {
	t := TaskDirectory{subtopology, partition}
	if err := t.check(); err != nil {
		return false, fmt.Errorf("state: find task %s/%d in %s: %w", subtopology, partition, d.path, err)
	}
	_, err := d.root.Lstat(t.name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
