package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
// A Directory has the lock, the identity (meta.json) and the paths of the tasks' databases; it
// opens no database. It reaches all files through an os.Root, so that no name and no symbolic link
// leads out of the directory. All methods are safe for concurrent use.
//
// Names are case-sensitive. On a file system that ignores case, two subtopologies whose names
// differ only in case share a path. The second one to open its database finds it locked.
type Directory struct {
	path string
	root *os.Root
	lock *flock.Flock
	// database opens a task's database; nil if no function was set.
	database func(path string) (Database, error)

	mu     sync.Mutex
	meta   meta
	closed bool

	// endsMu is held while the ends of transactions are written, which a slow disk makes long. It is
	// taken before mu.
	endsMu sync.Mutex
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

// open checks the directory, takes the lock, and checks again. The first check keeps lock files out
// of foreign directories. The second is needed because the directory may change until the lock is
// held.
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

// RaiseMaxWorkers stores n, durably, if it is higher than MaxWorkers. Call it before the first
// transactional id of a new worker is used: the next incarnation has to know all ids.
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

// Close gives the directory up. The databases in it must be closed before. Further calls do
// nothing.
func (d *Directory) Close() error {
	d.endsMu.Lock() // another process must not have the directory while that is written
	defer d.endsMu.Unlock()
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

func (d *Directory) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

func (d *Directory) release() error {
	var err error
	if d.lock != nil {
		err = d.lock.Close()
	}
	return errors.Join(err, d.root.Close())
}
