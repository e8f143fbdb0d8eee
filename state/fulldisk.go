package state

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

// fullError is the type of ErrFull: a sentinel with a text of its own that is an ErrFailed as well.
type fullError struct{}

func (fullError) Error() string { return "the disk is full" }

// Unwrap returns ErrFailed.
func (fullError) Unwrap() error { return ErrFailed }

// The answers of Windows, for which package syscall has no names.
const (
	windowsHandleDiskFull = syscall.Errno(39)
	windowsDiskFull       = syscall.Errno(112)
)

// IsFull reports whether err says that a disk is full or a quota used up: it wraps ErrFull, or is
// the operating system's word for it. Implementations of Database use it to tell ErrFull from other
// I/O errors.
func IsFull(err error) bool {
	if errors.Is(err, ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	return runtime.GOOS == "windows" && (errors.Is(err, windowsHandleDiskFull) || errors.Is(err, windowsDiskFull))
}

// withFull adds ErrFull to an error of the operating system that means it.
func withFull(err error) error {
	if err == nil || errors.Is(err, ErrFull) || !IsFull(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrFull, err)
}
