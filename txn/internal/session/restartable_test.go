package session

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/worker"
)

// TestOnlyRestartable: an error beside one that a new membership would cure is not taken for cured.
func TestOnlyRestartable(t *testing.T) {
	reopen := fmt.Errorf("%w: %w", worker.ErrReopen, errors.New("unknown member"))
	disk := errors.New("disk full")
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{reopen, true},
		{fmt.Errorf("stopping: %w", reopen), true},
		{errors.Join(reopen, nil, fmt.Errorf("stopping: %w", errors.Join(reopen, reopen))), true},
		{disk, false},
		{errors.Join(reopen, disk), false},
		{fmt.Errorf("stopping: %w", errors.Join(reopen, disk)), false},
		{errors.Join(reopen, fmt.Errorf("stopping: %w", errors.Join(reopen, disk))), false},
	} {
		if got := OnlyRestartable(tc.err); got != tc.want {
			t.Errorf("%q: %v", tc.err, got)
		}
	}
}

// TestWanted: a membership that an operator or a new topic has ended was ended on purpose, unless
// something else failed beside it.
func TestWanted(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("%w: in_0", errResumed), true},
		{errRebuilt, true},
		{fmt.Errorf("%w: orders-eu", errMatched), true},
		{errors.Join(errResumed, errMatched), true},
		{errSpace, false},
		{worker.ErrReopen, false},
		{errors.Join(errResumed, fmt.Errorf("stopping: %w", context.DeadlineExceeded)), false},
	} {
		if got := Wanted(tc.err); got != tc.want {
			t.Errorf("%q: %v", tc.err, got)
		}
	}
}

// TestIntegrityIsNotRestartable: contradicting data end Run also when another worker's membership
// ends at the same moment, or when that was the failure before (rule 5.3).
func TestIntegrityIsNotRestartable(t *testing.T) {
	reopen := fmt.Errorf("worker 1: %w", worker.ErrReopen)
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{reopen, true},
		{fmt.Errorf("%w: a: %w", worker.ErrReopen, assign.ErrMemberChanged), true},
		{errors.Join(errResumed, fmt.Errorf("stopping: %w", context.DeadlineExceeded)), true},
		{errors.Join(reopen, fmt.Errorf("%w: mixed", ErrIntegrity)), false},
		{errors.Join(errResumed, fmt.Errorf("stopping: %w", fmt.Errorf("%w: mixed", ErrIntegrity))), false},
		{fmt.Errorf("%w: broken: %w", ErrIntegrity, assign.ErrMemberChanged), false},
	} {
		if got := Restartable(tc.err); got != tc.want {
			t.Errorf("%q: %v", tc.err, got)
		}
	}
}
