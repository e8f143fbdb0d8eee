package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/state"
)

// Rebuild says which stores of a task's database are rebuilt from their changelogs, and where.
type Rebuild struct {
	// Stores are those to rebuild; the others are copied. None are all, and then the old database
	// is not even opened.
	Stores []string
	// Directory has the task's database, which must be closed. OpenAt opens the database at a path.
	Directory *state.Directory
	OpenAt    func(path string) (state.Database, error)
}

// Rebuild builds a database beside the task's, brings it to the last commit and puts it in the
// place of the old one. It ignores Open and Remove of the request. A failure before the replacement
// leaves the old database as it was. A StopError says that the changelogs do not hold the state of
// the last commit, so the new database would differ from the state that the task should have.
func (r *Restorer) Rebuild(ctx context.Context, req Request, b Rebuild, p *Progress) error {
	inspected, err := r.Inspect(ctx, req)
	if err != nil {
		return err
	}
	if !inspected.Named() {
		if inspected.Stop != nil {
			return inspected.Stop
		}
		return &StopError{Task: req.Task, Reason: "a changelog holds committed records behind the position that the last commit names",
			Recovery: req.recoveryActions(adopt, fromInput)}
	}
	if err := r.rebuild(ctx, req, b, p); err != nil {
		_, discarded := b.Directory.RebuildPath(req.Task.Subtopology, req.Task.Partition)
		return errors.Join(fmt.Errorf("rebuilding task %s: %w", req.Task, err), discarded)
	}
	if err := ctx.Err(); err != nil { // the task was given up, and the place of its database with it
		return fmt.Errorf("rebuilding task %s: %w", req.Task, err)
	}
	return b.Directory.ReplaceTask(req.Task.Subtopology, req.Task.Partition)
}

// rebuild leaves the new database beside the old one, closed and on the disk.
func (r *Restorer) rebuild(ctx context.Context, req Request, b Rebuild, p *Progress) error {
	id := req.Task
	path, err := b.Directory.RebuildPath(id.Subtopology, id.Partition)
	if err != nil {
		return err
	}
	if len(b.Stores) > 0 {
		if err := copyStores(ctx, req, b, path); err != nil {
			return err
		}
	}
	req.Open = func() (state.Database, error) { return b.OpenAt(path) }
	req.Remove = func() error {
		_, err := b.Directory.RebuildPath(id.Subtopology, id.Partition)
		return err
	}
	result, err := r.Restore(ctx, req, p)
	if err != nil {
		return err
	}
	return errors.Join(result.Database.Flush(), result.Database.Close())
}

// copyStores copies what is not rebuilt, with the positions that it is at. A store without a
// position is restored in full.
func copyStores(ctx context.Context, req Request, b Rebuild, path string) (err error) {
	place, err := b.Directory.TaskPath(req.Task.Subtopology, req.Task.Partition)
	if err != nil {
		return err
	}
	old, err := b.OpenAt(place)
	if errors.Is(err, state.ErrCorrupt) {
		return fmt.Errorf("the database is damaged, so no store of it can be kept; rebuild the whole task: %w", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	next, err := b.OpenAt(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, next.Close()) }()
	declared := req.declarations()
	kept := slices.DeleteFunc(slices.Clone(declared), func(d state.Declaration) bool { return slices.Contains(b.Stores, d.Name) })
	// The old database says whether its rows are of these layouts.
	if err := errors.Join(old.Declare(kept...), next.Declare(declared...)); err != nil {
		return err
	}
	at := next.Positions()
	for _, d := range kept {
		if err := copyStore(ctx, old, next, at, state.IDOf(d.Name)); err != nil {
			return err
		}
	}
	positions := old.Positions()
	positions.Changelogs = slices.DeleteFunc(positions.Changelogs, func(c state.Changelog) bool { return slices.Contains(b.Stores, c.Store) })
	return next.Apply(at, positions, func(func(state.Write) bool) {})
}

// A batch of a copy.
const (
	copyRecords = 32768
	copyBytes   = 16 << 20
)

// copyStore copies one store in batches.
func copyStore(ctx context.Context, old, next state.Database, at state.Positions, store state.StoreID) error {
	var writes []state.Write
	bytes := 0
	apply := func() error {
		err := next.Apply(at, at, slices.Values(writes))
		writes, bytes = writes[:0], 0
		return errors.Join(err, ctx.Err())
	}
	for e, err := range old.Scan(store, state.Range{}) {
		if err != nil {
			return err
		}
		writes = append(writes, state.Write{Store: store, Key: e.Key, Value: e.Value})
		bytes += len(e.Key) + len(e.Value)
		if len(writes) >= copyRecords || bytes >= copyBytes {
			if err := apply(); err != nil {
				return err
			}
		}
	}
	return apply()
}
