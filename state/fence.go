package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// fenceFile says that another process took the identity of this directory. Its modification time is
// when.
const fenceFile = "FENCED"

const fenceText = "Another process used the identity of this directory, and this one ended because of it.\n" +
	"The next start waits a while before it takes the identity back.\n"

// RecordFence remembers, durably, that the life of this process ended at that time because another
// one has the same identity.
func (d *Directory) RecordFence(at time.Time) error {
	return d.fence("record a fence", func() error {
		f, err := d.root.OpenFile(fenceFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString(fenceText)
		if err == nil {
			err = f.Sync()
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		if err := d.root.Chtimes(fenceFile, at, at); err != nil {
			return err
		}
		return syncDirectory(d.root, ".")
	})
}

// FencedAt returns the time of the last RecordFence, the zero time if there was none since
// ClearFence.
func (d *Directory) FencedAt() (at time.Time, err error) {
	err = d.fence("read the fence", func() error {
		info, err := d.root.Lstat(fenceFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			at = info.ModTime()
		}
		return err
	})
	return at, err
}

// ClearFence forgets what RecordFence has recorded.
func (d *Directory) ClearFence() error {
	return d.fence("clear the fence", func() error {
		err := d.root.Remove(fenceFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

func (d *Directory) fence(what string, do func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := ErrClosed
	if !d.closed {
		err = do()
	}
	if err != nil {
		return fmt.Errorf("state: %s in %s: %w", what, d.path, err)
	}
	return nil
}
