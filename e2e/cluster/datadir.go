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
	dirPrefix = "onceward-cluster-"
	lockName  = "lock"
	// staleAfter keeps the sweep away from a directory whose owner has made it but not locked it yet.
	staleAfter = time.Hour
)

// dataDir is one broker's temporary directory. It is locked while its owner lives, so that a later process
// can tell the directory of a process that died from one in use.
type dataDir struct {
	path string
	lock *flock.Flock
}

func newDataDir() (*dataDir, error) {
	sweep(os.TempDir(), time.Now())
	path, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return nil, err
	}
	d := &dataDir{path: path, lock: flock.New(filepath.Join(path, lockName))}
	locked, err := d.lock.TryLock()
	if err == nil && !locked {
		err = fmt.Errorf("%s, made a moment ago, is locked by another process", d.lock.Path())
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// file returns the path of a file in the directory.
func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }

// remove deletes the directory; nothing may write to it any more.
func (d *dataDir) remove() error {
	if err := d.lock.Close(); err != nil { // first: Windows does not remove an open file
		return err
	}
	return os.RemoveAll(d.path)
}

// sweep removes directories under root whose owners died without doing so. It is a courtesy to the disk: a
// directory that it cannot look into or remove, such as another user's, is no reason to fail, and the next
// sweep tries again.
func sweep(root string, now time.Time) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), dirPrefix) {
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
