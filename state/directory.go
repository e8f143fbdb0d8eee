package state

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gofrs/flock"
)

// Entries of a state directory beside meta.json.
const (
	lockFile       = "LOCK"
	tasksDirectory = "tasks"
	trashDirectory = "trash"
	// globalsDirectory has the databases of global tables.
	globalsDirectory = "globals"
)

// DirectoryOptions are the options of OpenDirectory.
type DirectoryOptions struct {
	// Application owns the directory. Required.
	Application string
	// Fingerprint is that of the topology. A new directory stores it; of an old one Fingerprint
	// returns the stored one.
	Fingerprint string
	// Cluster is the id of the Kafka cluster that the state belongs to. A directory that has none
	// keeps it, and one that has another is refused. Empty is not known, and compares nothing.
	Cluster string
	// Instance is the wanted instance id, 1 to 200 of the characters A-Z a-z 0-9 . _ -. Empty takes
	// the stored one, and for a new directory a random one.
	Instance string
	// Open opens a task's database. CheckpointTask and ImportTask look at what they have made
	// through it, and refuse to work without it. It is pebblestore.Open with its options, as a
	// rule.
	Open func(path string) (Database, error)
}

// Directory is the state directory of one application and instance. This process has it alone,
// until Close.
//
// It has the lock, the identity (meta.json) and the places of the tasks' databases; it opens no
// database. Everything in it is reached through an os.Root, so that no name and no symbolic link
// leads out of it. All methods may be called by any number of goroutines.
//
// Names are told apart by case. On a file system that ignores it, two subtopologies whose names
// differ in nothing else share a place, and the second one to open its database finds it locked.
type Directory struct {
	path string
	root *os.Root
	lock *flock.Flock
	// database opens a task's database; nil if nobody has said how.
	database func(path string) (Database, error)

	mu     sync.Mutex
	meta   meta
	closed bool
}

// OpenDirectory opens the state directory at path, or creates it with mode 0700. Errors wrap
//
//   - ErrLocked if another process has it;
//   - ErrForeign if it belongs to another application, instance or cluster, or is no state
//     directory and not empty;
//   - ErrFormat if a build with a newer major version of the format wrote it (FORMAT.md);
//   - ErrCorrupt if meta.json is damaged or missing.
//
// None of them changes anything in it.
func OpenDirectory(path string, o DirectoryOptions) (_ *Directory, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("state: open directory %s: %w", path, withFull(err))
		}
	}()
	if o.Application == "" {
		return nil, errors.New("an application is required")
	}
	if o.Instance != "" {
		if err := checkName(o.Instance); err != nil {
			return nil, fmt.Errorf("instance: %w", err)
		}
	}
	root, err := openRoot(path)
	if err != nil {
		return nil, err
	}
	d := &Directory{path: path, root: root, database: o.Open}
	if err := d.open(o); err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

// open takes the lock between two looks: the first, so that a directory that is none of ours gets
// not even a lock file, the second, because only what is seen under the lock stays.
func (d *Directory) open(o DirectoryOptions) error {
	if _, err := d.identify(o); err != nil {
		return err
	}
	// For writing, so that a directory that cannot be written to is refused here and not by every
	// task again and again.
	d.lock = flock.New(filepath.Join(d.path, lockFile), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	switch locked, err := d.lockAlone(); {
	case err != nil:
		return fmt.Errorf("lock: %w", err)
	case !locked:
		return fmt.Errorf("%w: another process holds %s: stop it, or give this one a directory of its own",
			ErrLocked, filepath.Join(d.path, lockFile))
	}
	m, err := d.identify(o)
	if err != nil {
		return err
	}
	switch {
	case m == nil:
		if m, err = d.create(o); err != nil {
			return err
		}
	case m.olderThanBuild():
		// Before anything else is written here in the form of this build.
		if err := writeMeta(d.root, *m); err != nil {
			return fmt.Errorf("raise the version in %s: %w", metaFile, err)
		}
	}
	d.meta = *m
	if err := d.keepCluster(o.Cluster); err != nil {
		return err
	}
	if err := d.emptyTrash(); err != nil {
		return fmt.Errorf("empty the trash: %w", err)
	}
	return nil
}

// identify returns the meta data of a directory that o may open, nil for a new one.
func (d *Directory) identify(o DirectoryOptions) (*meta, error) {
	if info, err := d.root.Lstat(lockFile); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrForeign, lockFile)
	}
	m, found, err := readMeta(d.root)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, d.checkNew()
	}
	if m.Application != o.Application {
		return nil, fmt.Errorf("%w: it belongs to application %q, not %q: give each application its own",
			ErrForeign, m.Application, o.Application)
	}
	if o.Instance != "" && m.Instance != o.Instance {
		return nil, fmt.Errorf(
			"%w: it belongs to instance %q, not %q: leave the instance out, or give each instance its own",
			ErrForeign, m.Instance, o.Instance)
	}
	stored, err := readCluster(d.root)
	if err != nil {
		return nil, err
	}
	if err := CheckCluster(stored, o.Cluster); err != nil {
		return nil, err
	}
	return &m, nil
}

// checkNew refuses a directory without meta data that has anything in it but what a creation leaves
// when it is killed.
func (d *Directory) checkNew() error {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case lockFile, metaTempFile, "lost+found": // the last one is in every new ext4 volume
		case tasksDirectory, globalsDirectory:
			return fmt.Errorf("%w: there are databases, but %s is missing: bring it back, or remove the directory",
				ErrCorrupt, metaFile)
		default:
			return fmt.Errorf("%w: it is not empty (%q) and has no %s", ErrForeign, e.Name(), metaFile)
		}
	}
	return nil
}

func (d *Directory) create(o DirectoryOptions) (*meta, error) {
	m := &meta{
		Application: o.Application, Instance: o.Instance, Fingerprint: o.Fingerprint,
	}
	if m.Instance == "" {
		m.Instance = randomName()
	}
	if err := writeMeta(d.root, *m); err != nil {
		return nil, fmt.Errorf("write %s: %w", metaFile, err)
	}
	return m, nil
}

// Path returns the path that the directory was opened with.
func (d *Directory) Path() string { return d.path }

// Instance returns the instance id. It is made once and stays.
func (d *Directory) Instance() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta.Instance
}

// Fingerprint returns the stored fingerprint of the topology, which may differ from the one given
// to OpenDirectory: judging a difference is the caller's business.
func (d *Directory) Fingerprint() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta.Fingerprint
}

// SetFingerprint stores another fingerprint, durably.
func (d *Directory) SetFingerprint(fingerprint string) error {
	return d.update("set the fingerprint", func(m *meta) { m.Fingerprint = fingerprint })
}

// MaxWorkers returns the highest number of workers that this directory was used with since
// LowerMaxWorkers, 0 at first.
func (d *Directory) MaxWorkers() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta.MaxWorkers
}

// RaiseMaxWorkers stores n, durably, if it is higher than MaxWorkers. It is called before the first
// transactional id of a new worker is used: the next life has to know all of them.
func (d *Directory) RaiseMaxWorkers(n int) error {
	return d.update("raise the number of workers", func(m *meta) { m.MaxWorkers = max(m.MaxWorkers, n) })
}

// LowerMaxWorkers stores n, durably, if it is lower than MaxWorkers. It is called once nothing is
// left of what the workers above n have written.
func (d *Directory) LowerMaxWorkers(n int) error {
	return d.update("lower the number of workers", func(m *meta) { m.MaxWorkers = min(m.MaxWorkers, n) })
}

func (d *Directory) update(what string, change func(*meta)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("state: %s: the directory %s is %w", what, d.path, ErrClosed)
	}
	m := d.meta
	change(&m)
	if m == d.meta {
		return nil
	}
	if err := writeMeta(d.root, m); err != nil {
		return fmt.Errorf("state: %s in %s: %w", what, d.path, withFull(err))
	}
	d.meta = m
	return nil
}

// place is where a database is below the root.
type place interface {
	// name is the path below the root, and top the first part of it.
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

// Tasks lists the tasks that have a place, in the order of subtopology and partition. What is not
// named like one is left out.
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

// Close gives the directory up. The databases in it must be closed before. Further calls do
// nothing.
func (d *Directory) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if err := d.release(); err != nil {
		return fmt.Errorf("state: close directory %s: %w", d.path, err)
	}
	return nil
}

func (d *Directory) release() error {
	var err error
	if d.lock != nil {
		err = d.lock.Close()
	}
	return errors.Join(err, d.root.Close())
}
