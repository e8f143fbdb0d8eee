package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Identity is what a state directory says about itself.
type Identity struct {
	Application, Instance string
	// Fingerprint is that of the topology when it was last stored.
	Fingerprint string
	// Cluster is the id of the Kafka cluster that the state belongs to, empty if an instance of
	// this build has not started on it yet.
	Cluster string
	// Format is the version of everything in the directory, such as "1.0" (FORMAT.md).
	Format string
}

// Identify returns the identity of the state directory at path, also while a process has it open.
// It takes no lock and changes nothing. Errors wrap ErrForeign for what is no state directory,
// ErrFormat and ErrCorrupt, as those of OpenDirectory.
func Identify(path string) (Identity, error) {
	root, m, err := openToRead(path)
	if err != nil {
		return Identity{}, fmt.Errorf("state: identify directory %s: %w", path, err)
	}
	identity, err := identityOf(root, m)
	return identity, errors.Join(err, root.Close())
}

// readersWait is how long an instance that starts waits for tools that read its directory. Tests
// lower it.
var readersWait = 10 * time.Second

// readersPoll is how often it looks whether they are done: no lock can be waited for with a limit.
const readersPoll = 20 * time.Millisecond

// lockAlone takes the lock, and waits for tools that read. It does not wait for another instance,
// whose lock cannot be shared.
func (d *Directory) lockAlone() (bool, error) {
	for until := time.Now().Add(readersWait); ; time.Sleep(readersPoll) {
		if locked, err := d.lock.TryLock(); locked || err != nil || time.Now().After(until) {
			return locked, err
		}
		probe := flock.New(d.lock.Path(), flock.SetFlag(os.O_RDONLY))
		shared, err := probe.TryRLock()
		if err := errors.Join(err, probe.Close()); err != nil || !shared {
			return false, err
		}
	}
}

// ReadOnlyDirectory is the state directory of an instance that does not run, open for tools that
// read. Nothing in it is changed: no version is raised, nothing is removed, no file is made.
//
// It holds a shared lock until Close. Any number of tools may read at a time; an instance that is
// started meanwhile waits for them, ten seconds at most, and then finds the directory in use. All
// methods may be called by any number of goroutines.
type ReadOnlyDirectory struct {
	dir      *Directory
	identity Identity
}

// OpenDirectoryReadOnly opens the state directory at path, whoever it belongs to. Errors wrap
// ErrLocked while an instance runs on it, ErrForeign for what is no state directory, ErrFormat and
// ErrCorrupt, as those of OpenDirectory.
func OpenDirectoryReadOnly(path string) (_ *ReadOnlyDirectory, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("state: open directory %s to read: %w", path, err)
		}
	}()
	root, m, err := openToRead(path)
	if err != nil {
		return nil, err
	}
	d := &Directory{path: path, root: root, meta: m}
	if err := d.lockShared(); err != nil {
		return nil, errors.Join(err, d.release())
	}
	// Only what is seen under the lock stays.
	m, found, err := readMeta(root)
	if err == nil && !found {
		err = fmt.Errorf("%w: it was removed", ErrForeign)
	}
	if err != nil {
		return nil, errors.Join(err, d.release())
	}
	d.meta = m
	identity, err := identityOf(root, m)
	if err != nil {
		return nil, errors.Join(err, d.release())
	}
	return &ReadOnlyDirectory{dir: d, identity: identity}, nil
}

// openToRead opens what has to be a state directory, and reads its meta data.
func openToRead(path string) (*os.Root, meta, error) {
	path, err := cleanPath(path)
	if err != nil {
		return nil, meta{}, err
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, meta{}, err
	case !info.IsDir():
		return nil, meta{}, fmt.Errorf("%w: it is not a directory", ErrForeign)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, meta{}, err
	}
	m, found, err := readMeta(root)
	if err == nil && !found {
		err = fmt.Errorf("%w: it has no %s", ErrForeign, metaFile)
	}
	if err != nil {
		return nil, meta{}, errors.Join(err, root.Close())
	}
	return root, m, nil
}

// lockShared takes the lock without the right to write, so that a directory on a read-only file
// system can be read.
func (d *Directory) lockShared() error {
	if info, err := d.root.Lstat(lockFile); err != nil {
		return fmt.Errorf("lock: %w", err)
	} else if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file", ErrForeign, lockFile)
	}
	d.lock = flock.New(filepath.Join(d.path, lockFile), flock.SetFlag(os.O_RDONLY))
	switch locked, err := d.lock.TryRLock(); {
	case err != nil:
		return fmt.Errorf("lock: %w", err)
	case !locked:
		return fmt.Errorf("%w: a process holds %s", ErrLocked, filepath.Join(d.path, lockFile))
	}
	return nil
}

func identityOf(root *os.Root, m meta) (Identity, error) {
	cluster, err := readCluster(root)
	return Identity{
		Application: m.Application, Instance: m.Instance, Fingerprint: m.Fingerprint, Cluster: cluster,
		Format: fmt.Sprintf("%d.%d", m.Format, m.Minor),
	}, err
}

// Identity returns what the directory says about itself.
func (d *ReadOnlyDirectory) Identity() Identity { return d.identity }

// Path returns the path that the directory was opened with.
func (d *ReadOnlyDirectory) Path() string { return d.dir.Path() }

// Tasks lists the tasks that have a place, in the order of subtopology and partition. A task that
// was opened and never applied a batch may have no database there.
func (d *ReadOnlyDirectory) Tasks() ([]TaskDirectory, error) { return d.dir.Tasks() }

// TaskPath returns the path of a task's database, for pebblestore.OpenReadOnly. Names are checked
// as by Directory.TaskPath.
func (d *ReadOnlyDirectory) TaskPath(t TaskDirectory) (string, error) {
	err := t.check()
	if err == nil {
		var info os.FileInfo
		if info, err = d.dir.root.Stat(t.name()); err == nil && !info.IsDir() {
			err = fmt.Errorf("%w: it is not a directory", ErrForeign)
		}
	}
	if err != nil {
		return "", fmt.Errorf("state: path of task %s/%d in %s: %w", t.Subtopology, t.Partition, d.dir.path, err)
	}
	return filepath.Join(d.dir.path, t.name()), nil
}

// Close gives the directory up. Databases in it must be closed before. Further calls do nothing.
func (d *ReadOnlyDirectory) Close() error { return d.dir.Close() }

// ReadOnlyDatabase is the committed state of a task that nobody has open for writing. It does not
// change while it is open, so that it is its own View.
type ReadOnlyDatabase interface {
	View
	// Stores returns the declared stores in ascending order of their names.
	Stores() ([]Declaration, error)
}
