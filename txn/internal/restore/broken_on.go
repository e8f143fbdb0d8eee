//go:build onceward_failpoints

package restore

import "github.com/onceward/onceward/txn/internal/failpoint"

// brokenSkip leaves out the last record below the target if that mechanism is broken. That is what
// comes of looking at the changelog before the offsets are read: a transaction that commits in
// between moves the offsets, and its state is missing.
func brokenSkip(s failpoint.Set, offset, target int64) bool {
	return s.Broken(failpoint.Restore) && offset == target-1
}

// brokenAge takes every log for one that was never compacted behind the commit if that mechanism is
// broken.
func brokenAge(s failpoint.Set) bool { return s.Broken(failpoint.Age) }
