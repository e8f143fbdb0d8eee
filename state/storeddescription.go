package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// The description of the topology in the state directory, and its replacement that was not
// finished.
const (
	topologyFile     = "topology.json"
	topologyTempFile = "topology.json.tmp"
)

// descriptionBytesMax is far beyond any description: a node takes a few hundred bytes.
const descriptionBytesMax = 16 << 20

// SetDescription stores, durably, what the topology is that runs on the directory, in a form that
// is the caller's business. It changes nothing if that is what is stored. No part of the state
// depends on it: it is there so that a later topology can be compared with this one.
func (d *Directory) SetDescription(description []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("state: set the description: the directory %s is %w", d.path, ErrClosed)
	}
	// One that cannot be read is replaced as well: nothing depends on it.
	if stored, err := readDescription(d.root); err == nil && stored != nil && bytes.Equal(stored, description) {
		return nil
	}
	if err := replaceFile(d.root, topologyTempFile, topologyFile, description); err != nil {
		return fmt.Errorf("state: set the description in %s: %w", d.path, withFull(err))
	}
	return nil
}

// Description returns what SetDescription has stored, nil if nothing was. The error wraps
// ErrCorrupt if it is longer than any description.
func (d *Directory) Description() ([]byte, error) {
	description, err := readDescription(d.root)
	if err != nil {
		return nil, fmt.Errorf("state: read the description in %s: %w", d.path, err)
	}
	return description, nil
}

// ReadDescription returns what SetDescription has stored in the state directory at path, nil if
// nothing was, also while a process has it open. It takes no lock and changes nothing. Errors are
// those of Identify.
func ReadDescription(path string) ([]byte, error) {
	root, _, err := openToRead(path)
	if err != nil {
		return nil, fmt.Errorf("state: read the description in %s: %w", path, err)
	}
	description, err := readDescription(root)
	if err := errors.Join(err, root.Close()); err != nil {
		return nil, fmt.Errorf("state: read the description in %s: %w", path, err)
	}
	return description, nil
}

func readDescription(root *os.Root) ([]byte, error) {
	description, err := readFile(root, topologyFile, descriptionBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return description, err
}
