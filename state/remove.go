package state

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// RemoveTask removes a task's database, which must be closed. It is gone at once and as a whole,
// also for a process that is killed in the middle: the database is moved out of its place before
// the first file is removed. Removing what is not there is no error. It makes no file and no
// directory, so that a full disk does not keep what would give it room.
func (d *Directory) RemoveTask(subtopology string, partition int32) error {
	t := TaskDirectory{subtopology, partition}
	if err := d.remove(t); err != nil {
		return fmt.Errorf("state: remove task %s/%d from %s: %w", subtopology, partition, d.path, withFull(err))
	}
	return nil
}

func (d *Directory) remove(t place) error {
	if err := t.check(); err != nil {
		return err
	}
	d.mu.Lock()
	trash, err := d.discardLocked(t)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return d.removeTrash(trash)
}

// discardLocked moves a database into the trash and returns where to; nothing if there is none. The
// caller holds mu.
func (d *Directory) discardLocked(t place) (trash string, err error) {
	if d.closed {
		return "", ErrClosed
	}
	if err := d.makeTrash(); err != nil {
		return "", err
	}
	trash = filepath.Join(trashDirectory, randomName())
	if err := d.root.Rename(t.name(), trash); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return trash, syncDirectory(d.root, filepath.Dir(t.name()))
}

// makeTrash makes the trash unless it is there, as it is from the opening of the directory on,
// except on a disk that was full then.
func (d *Directory) makeTrash() error { return d.root.MkdirAll(trashDirectory, 0o700) }

// emptyTrash removes what RemoveTask had no time for, and leaves an empty trash. On a full disk
// there may be none.
func (d *Directory) emptyTrash() error {
	entries, err := fs.ReadDir(d.root.FS(), trashDirectory)
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.makeTrash(); IsFull(err) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := d.root.RemoveAll(filepath.Join(trashDirectory, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// removeTrash removes what discardLocked has moved. It is called without mu: the files of a large
// database take seconds, and others want to open theirs.
func (d *Directory) removeTrash(trash string) error {
	if trash == "" {
		return nil
	}
	return d.root.RemoveAll(trash)
}
