package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	dirPrefix = "onceward-"
	dataKind  = "cluster" // of the directories with the data of brokers
	lockName  = "lock"
	// staleAfter keeps the sweep away from a directory whose owner has made it but not locked it
	// yet.
	staleAfter = time.Hour
)

// TempDir is a temporary directory of a process. It is locked while its owner lives, so that a
// later process can tell the directory of a process that died from one in use.
type TempDir struct {
	path string
	lock *flock.Flock
}

// NewTempDir makes a directory whose name has the kind in it. It first removes the directories of
// that kind whose owners died without [TempDir.Remove].
func NewTempDir(kind string) (*TempDir, error) {
	prefix := dirPrefix + kind + "-"
	sweep(os.TempDir(), prefix, time.Now())
	path, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	d := &TempDir{path: path, lock: flock.New(filepath.Join(path, lockName))}
	locked, err := d.lock.TryLock()
	if err == nil && !locked {
		err = fmt.Errorf("%s, made a moment ago, is locked by another process", d.lock.Path())
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Path returns the path of the directory.
func (d *TempDir) Path() string { return d.path }

// File returns the path of a file in the directory.
func (d *TempDir) File(name string) string { return filepath.Join(d.path, name) }

// Remove deletes the directory; nothing may write to it any more.
func (d *TempDir) Remove() error {
	if err := d.lock.Close(); err != nil { // first: Windows does not remove an open file
		return err
	}
	return os.RemoveAll(d.path)
}

// sweep removes directories under root whose names begin with the prefix and whose owners died
// without doing so. It is a courtesy to the disk: a directory that it cannot look into or remove,
// such as another user's, is no reason to fail, and the next sweep tries again.
func sweep(root, prefix string, now time.Time) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < staleAfter {
			continue
		}
		path := filepath.Join(root, e.Name())
		// Without O_CREATE: a directory without a lock is not one of ours.
		lock := flock.New(filepath.Join(path, lockName), flock.SetFlag(os.O_RDWR))
		if locked, err := lock.TryLock(); err != nil || !locked {
			continue
		}
		if lock.Close() == nil {
			_ = os.RemoveAll(path)
		}
	}
}
