//go:build onceward_failpoints

package worker

import (
	"time"

	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/task"
)

// brokenPause keeps transactions open for so long that a kill meets them.
const brokenPause = 200 * time.Millisecond

// brokenBeforeEnd applies the round before it is known to be committed if that mechanism is broken.
// If any is, it waits.
func brokenBeforeEnd(s failpoint.Set, r *round) error {
	if s.Broken(failpoint.Apply) {
		if err := applyUncommitted(r); err != nil {
			return err
		}
	}
	if s.AnyBroken() {
		time.Sleep(brokenPause)
	}
	return nil
}

// applyUncommitted brings the round into the databases and writes them to the disk, or a kill would
// take it back.
func applyUncommitted(r *round) error {
	for _, c := range r.contributions {
		if err := c.Apply(); err != nil {
			return err
		}
		if c.Task.State == nil {
			continue
		}
		if err := c.Task.State.Database().Flush(); err != nil {
			return err
		}
	}
	return nil
}

// brokenApplied reports whether rounds are in the databases before they are committed.
func brokenApplied(s failpoint.Set) bool { return s.Broken(failpoint.Apply) }

// brokenState reports whether a round counts as one of the state that has written to stores
// without a changelog alone.
func brokenState(s failpoint.Set, c *task.Contribution) bool {
	return s.Broken(failpoint.LostOnRestart) && c.Layer != nil && c.Layer.Len() > 0
}
