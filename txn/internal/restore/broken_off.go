//go:build !onceward_failpoints

package restore

import (
	"context"

	"github.com/onceward/onceward/txn/internal/failpoint"
)

// The seams of the negative controls, which do nothing here: see broken_on.go.

func brokenSkip(failpoint.Set, int64, int64) bool { return false }

func brokenAge(failpoint.Set) bool { return false }

func (*opening) brokenInMemory(*Found) {}

func (*Follower) brokenCopies(context.Context, *Found) error { return nil }
