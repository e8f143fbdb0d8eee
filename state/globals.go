package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// globalTable names the place of the database of a global table, by its store.
type globalTable string

func (t globalTable) name() string { return filepath.Join(globalsDirectory, string(t)) }
func (globalTable) top() string    { return globalsDirectory }
func (t globalTable) rebuildName() string {
	return filepath.Join(trashDirectory, "rebuild-global", string(t))
}

func (t globalTable) check() error {
	if err := checkName(string(t)); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// GlobalPath returns the path of the database of a global table, globals/<store> below the
// directory. It is [Directory.TaskPath] for global tables.
func (d *Directory) GlobalPath(store string) (string, error) {
	t := globalTable(store)
	if err := d.prepare(t); err != nil {
		return "", d.globalError("path of", store, err)
	}
	return filepath.Join(d.path, t.name()), nil
}

// RemoveGlobal is [Directory.RemoveTask] for global tables.
func (d *Directory) RemoveGlobal(store string) error {
	if err := d.remove(globalTable(store)); err != nil {
		return d.globalError("remove", store, err)
	}
	return nil
}

// GlobalRebuildPath is [Directory.RebuildPath] for global tables.
func (d *Directory) GlobalRebuildPath(store string) (string, error) {
	t := globalTable(store)
	if err := d.prepareRebuild(t); err != nil {
		return "", d.globalError("path to rebuild", store, err)
	}
	return filepath.Join(d.path, t.rebuildName()), nil
}

// ReplaceGlobal is [Directory.ReplaceTask] for global tables.
func (d *Directory) ReplaceGlobal(store string) error {
	if err := d.putInPlace(globalTable(store)); err != nil {
		return d.globalError("replace", store, err)
	}
	return nil
}

func (d *Directory) globalError(what, store string, err error) error {
	return fmt.Errorf("state: %s global table %s in %s: %w", what, store, d.path, withFull(err))
}

// Globals lists the stores of the global tables that have a place, in the order of their names.
func (d *Directory) Globals() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("state: list the global tables: the directory %s is %w", d.path, ErrClosed)
	}
	stores, err := d.subdirectories(globalsDirectory)
	if err != nil {
		return nil, fmt.Errorf("state: list the global tables of %s: %w", d.path, err)
	}
	stores = slices.DeleteFunc(stores, func(name string) bool { return checkName(name) != nil })
	slices.Sort(stores)
	return stores, nil
}

// Globals is [Directory.Globals].
func (d *ReadOnlyDirectory) Globals() ([]string, error) { return d.dir.Globals() }

// GlobalPath returns the path of the database of a global table, for pebblestore.OpenReadOnly.
func (d *ReadOnlyDirectory) GlobalPath(store string) (string, error) {
	t := globalTable(store)
	err := t.check()
	if err == nil {
		var info os.FileInfo
		info, err = d.dir.root.Stat(t.name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = nil
		case err == nil && !info.IsDir():
			err = fmt.Errorf("%w: it is not a directory", ErrForeign)
		}
	}
	if err != nil {
		return "", d.dir.globalError("path of", store, err)
	}
	return filepath.Join(d.dir.path, t.name()), nil
}
