package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ImportTask makes the checkpoint in the directory from, which CheckpointTask has made, the
// database of a task that has none. Opened, it is at the positions of the checkpoint; what was
// committed since is replayed from the changelogs. from is only read, and stays valid: large files
// are shared by hard links where the file system allows it, everything else is copied.
//
// The copy is opened and compared with checkpoint.json before it gets its place, all at once, also
// for a process that is killed in the middle. Errors wrap
//
//   - ErrForeign if from is no checkpoint, or one of another application or task;
//   - ErrFormat if a newer build took it;
//   - ErrCorrupt if it is damaged, or its database is not the one that checkpoint.json describes;
//   - fs.ErrExist if the task has a database already (RemoveTask);
//   - ErrFull if there is no room for it.
//
// None of them changes anything.
func (d *Directory) ImportTask(subtopology string, partition int32, from string) error {
	t := TaskDirectory{subtopology, partition}
	if err := d.importTask(t, from); err != nil {
		return fmt.Errorf("state: import of task %s/%d into %s from %s: %w", subtopology, partition, d.path, from, withFull(err))
	}
	return nil
}

func (d *Directory) importTask(t TaskDirectory, from string) (err error) {
	application, err := d.canCheckpoint(t)
	if err != nil {
		return err
	}
	if err := d.mustBeFree(t); err != nil {
		return err
	}
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	m, err := readCheckpointMeta(source)
	if err != nil {
		return err
	}
	if m.Application != application || m.Subtopology != t.Subtopology || m.Partition != t.Partition {
		return fmt.Errorf("%w: it is a checkpoint of task %s/%d of application %q", ErrForeign, m.Subtopology, m.Partition,
			m.Application)
	}
	// In the trash, which is emptied when the directory is opened: a kill leaves nothing behind.
	if err := d.makeTrash(); err != nil {
		return err
	}
	staged := filepath.Join(trashDirectory, randomName())
	defer func() {
		if err != nil {
			err = errors.Join(err, d.root.RemoveAll(staged))
		}
	}()
	if err := d.stage(source, from, staged); err != nil {
		return err
	}
	at, err := d.look(filepath.Join(d.path, staged))
	if err != nil {
		return err
	}
	if err := m.holds(at); err != nil {
		return err
	}
	if err := d.prepare(t); err != nil {
		return err
	}
	return d.place(t, staged)
}

// mustBeFree refuses a task that has a database.
func (d *Directory) mustBeFree(t TaskDirectory) error {
	_, err := d.root.Lstat(t.name())
	switch {
	case err == nil:
		return fmt.Errorf("the task has a database already, remove that first: %w", fs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// place gives a finished database its place, durably.
func (d *Directory) place(t TaskDirectory, staged string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	if err := d.mustBeFree(t); err != nil {
		return err
	}
	if err := d.root.Rename(staged, t.name()); err != nil {
		return err
	}
	return errors.Join(syncDirectory(d.root, trashDirectory), syncDirectory(d.root, filepath.Dir(t.name())))
}

// linked are the ends of the names of files that Pebble writes once and then only reads or removes.
var linked = []string{".sst", ".blob"}

// stage fills a directory with the database of a checkpoint, durably.
func (d *Directory) stage(source *os.Root, from, staged string) error {
	if err := d.root.Mkdir(staged, 0o700); err != nil {
		return err
	}
	entries, err := fs.ReadDir(source.FS(), checkpointDatabase)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the directory %s is missing", ErrCorrupt, checkpointDatabase)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(checkpointDatabase, e.Name())
		info, err := source.Lstat(name)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%w: %s is not a regular file", ErrForeign, name)
		}
		if err := d.stageFile(source, from, name, filepath.Join(staged, e.Name()), info); err != nil {
			return err
		}
	}
	return errors.Join(syncDirectory(d.root, staged), syncDirectory(d.root, trashDirectory))
}

// stageFile links or copies one file.
func (d *Directory) stageFile(source *os.Root, from, name, to string, info fs.FileInfo) error {
	if slices.Contains(linked, filepath.Ext(name)) && os.Link(filepath.Join(from, name), filepath.Join(d.path, to)) == nil {
		// Through a path, because a root links only what is its own: it has to be the file that was
		// looked at.
		if now, err := d.root.Lstat(to); err != nil || !os.SameFile(info, now) {
			return errors.Join(err, fmt.Errorf("%w: %s was replaced while it was linked", ErrForeign, name))
		}
		return nil
	}
	in, err := source.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := d.root.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
