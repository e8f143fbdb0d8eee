package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// openRoot creates the directory if there is none. The last element of path must be a directory
// itself: a link that someone else can change would move the whole state.
func openRoot(path string) (*os.Root, error) {
	path, err := cleanPath(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := makeDirectory(path); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%w: it is a symbolic link; name the directory that it points to", ErrForeign)
	case !info.IsDir():
		return nil, fmt.Errorf("%w: it is not a directory", ErrForeign)
	}
	return os.OpenRoot(path)
}

// cleanPath takes the separator off the end, which would have the operating system look behind a
// symbolic link.
func cleanPath(path string) (string, error) {
	if path == "" {
		return "", errors.New("a path is required")
	}
	return filepath.Clean(path), nil
}

// makeDirectory creates a directory and those above it that are missing, all of them durably.
func makeDirectory(path string) error {
	made := []string{path}
	for above := filepath.Dir(path); above != filepath.Dir(above); above = filepath.Dir(above) {
		if _, err := os.Lstat(above); !errors.Is(err, fs.ErrNotExist) {
			break // another error is one of MkdirAll too
		}
		made = append(made, above)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for _, directory := range made {
		if err := syncParent(directory); err != nil {
			return err
		}
	}
	return nil
}
