//go:build !onceward_failpoints

package worker

import "github.com/onceward/onceward/txn/internal/failpoint"

// The seams of the negative controls, which do nothing here: see broken_on.go.

func brokenBeforeEnd(failpoint.Set, *round) error { return nil }

func brokenApplied(failpoint.Set) bool { return false }
