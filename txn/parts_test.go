package txn

import (
	"errors"
	"fmt"
	"testing"

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
		if got := onlyRestartable(tc.err); got != tc.want {
			t.Errorf("%q: %v", tc.err, got)
		}
	}
}
