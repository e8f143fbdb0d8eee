package state_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/onceward/onceward/state"
)

// TestIsFull: a full disk is known by the words of the operating system, in whatever they are
// wrapped, and by nothing else.
func TestIsFull(t *testing.T) {
	for _, tc := range []struct {
		err  error
		full bool
	}{
		{nil, false},
		{syscall.ENOSPC, true},
		{syscall.EDQUOT, true},
		{&fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}, true},
		{errors.Join(errors.New("first"), fmt.Errorf("x: %w", state.ErrFull)), true},
		{syscall.EIO, false},
		{syscall.EROFS, false},
		{state.ErrFailed, false},
		{errors.New("no space left on device"), false},
	} {
		if got := state.IsFull(tc.err); got != tc.full {
			t.Errorf("IsFull(%v) is %v", tc.err, got)
		}
	}
	if !errors.Is(state.ErrFull, state.ErrFailed) {
		t.Error("a full disk is no I/O error")
	}
	if errors.Is(state.ErrFailed, state.ErrFull) {
		t.Error("every I/O error is a full disk")
	}
}
