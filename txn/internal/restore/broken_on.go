//go:build onceward_failpoints

package restore

import (
	"context"
	"slices"

	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/task"
)

// brokenSkip leaves out the last record below the target if that mechanism is broken. That is what
// comes of looking at the changelog before the offsets are read: a transaction that commits in
// between moves the offsets, and its state is missing.
func brokenSkip(s failpoint.Set, offset, target int64) bool {
	return s.Broken(failpoint.Restore) && offset == target-1
}

// brokenAge takes every log for one that was never compacted behind the commit if that mechanism is
// broken.
func brokenAge(s failpoint.Set) bool { return s.Broken(failpoint.Age) }

// brokenInMemory takes the note of a store in memory for a position of its rows if that mechanism
// is broken. That is what a directory would say that kept the position of a store without its rows.
func (o *opening) brokenInMemory(found *Found) {
	if !o.r.Failpoints.Broken(failpoint.InMemory) {
		return
	}
	found.Database, found.Changelogs = found.Database.Clone(), slices.Clone(found.Changelogs)
	for i := range found.Changelogs {
		c := &found.Changelogs[i]
		if note, ok := found.Database.InMemory(c.Store); ok && c.InMemory {
			note.Store, c.InMemory = c.Store, false
			found.Database.SetChangelog(note)
		}
	}
}

// brokenCopies takes the stable ends of the changelogs for the positions of the commit that a copy
// follows if that mechanism is broken. Its stores then have what no commit has that is known.
func (f *Follower) brokenCopies(ctx context.Context, found *Found) error {
	if !f.o.r.Failpoints.Broken(failpoint.Copies) {
		return nil
	}
	commit := *found.Commit
	commit.Changelogs = slices.Clone(commit.Changelogs)
	for _, s := range f.o.req.Stores {
		end, err := f.o.r.Cluster.StableEnd(ctx, s.ChangelogTopic, found.Task.Partition)
		if err != nil {
			return err
		}
		for i := range commit.Changelogs {
			if c := &commit.Changelogs[i]; c.Store == task.HashName(s.Name) {
				c.Applied = end
			}
		}
	}
	found.Commit = &commit
	return nil
}
