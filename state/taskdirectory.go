package state

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// place is where a database is below the root.
type place interface {
	// name is the path below the root, and top its first element.
	name() string
	top() string
	// rebuildName is the path of a database that is built beside it.
	rebuildName() string
	check() error
}

// TaskDirectory names the place of one task's database.
type TaskDirectory struct {
	Subtopology string
	Partition   int32
}

// name returns the path below the root.
func (t TaskDirectory) name() string {
	return filepath.Join(tasksDirectory, t.Subtopology, strconv.Itoa(int(t.Partition)))
}

func (TaskDirectory) top() string { return tasksDirectory }

func (t TaskDirectory) check() error {
	if err := checkName(t.Subtopology); err != nil {
		return fmt.Errorf("subtopology: %w", err)
	}
	if t.Partition < 0 {
		return fmt.Errorf("partition %d is negative", t.Partition)
	}
	return nil
}

// TaskPath returns the path of a task's database, tasks/<subtopology>/<partition> below the
// directory. It makes the directories above it; opening the database makes the last one. The name
// is refused unless it has 1 to 200 of the characters A-Z a-z 0-9 . _ - and is neither "." nor
// "..", and so is a place that a symbolic link leads to.
func (d *Directory) TaskPath(subtopology string, partition int32) (string, error) {
	t := TaskDirectory{subtopology, partition}
	if err := d.prepare(t); err != nil {
		return "", fmt.Errorf("state: path of task %s/%d in %s: %w", subtopology, partition, d.path, withFull(err))
	}
	return filepath.Join(d.path, t.name()), nil
}

func (d *Directory) prepare(t place) error {
	if err := t.check(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	parent := filepath.Dir(t.name())
	if err := d.root.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	for _, name := range []string{t.top(), parent, t.name()} {
		info, err := d.root.Lstat(name)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%w: %s is not a directory", ErrForeign, name)
		}
		if err != nil && !(errors.Is(err, fs.ErrNotExist) && name == t.name()) {
			return err
		}
	}
	return errors.Join(syncDirectory(d.root, "."), syncDirectory(d.root, t.top()))
}

// Tasks lists the tasks that have a directory, in the order of subtopology and partition. It skips
// other names.
func (d *Directory) Tasks() ([]TaskDirectory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("state: list the tasks: the directory %s is %w", d.path, ErrClosed)
	}
	var tasks []TaskDirectory
	subtopologies, err := d.subdirectories(tasksDirectory)
	for _, subtopology := range subtopologies {
		partitions, readErr := d.subdirectories(filepath.Join(tasksDirectory, subtopology))
		err = errors.Join(err, readErr)
		for _, name := range partitions {
			partition, parseErr := strconv.ParseInt(name, 10, 32)
			t := TaskDirectory{subtopology, int32(partition)}
			// Back to a name, because "007" and "+7" are numbers too.
			if parseErr == nil && t.check() == nil && filepath.Base(t.name()) == name {
				tasks = append(tasks, t)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("state: list the tasks of %s: %w", d.path, err)
	}
	slices.SortFunc(tasks, func(a, b TaskDirectory) int {
		return cmp.Or(strings.Compare(a.Subtopology, b.Subtopology), cmp.Compare(a.Partition, b.Partition))
	})
	return tasks, nil
}

// subdirectories returns the names of the directories in a directory, none if it does not exist.
func (d *Directory) subdirectories(name string) ([]string, error) {
	entries, err := fs.ReadDir(d.root.FS(), filepath.ToSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}
