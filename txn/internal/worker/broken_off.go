//go:build !onceward_failpoints

package worker

import (
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/task"
)

// The seams of the negative controls, which do nothing here: see broken_on.go.

func brokenBeforeEnd(failpoint.Set, *round) error { return nil }

func brokenApplied(failpoint.Set) bool { return false }

func brokenState(failpoint.Set, *task.Contribution) bool { return false }
