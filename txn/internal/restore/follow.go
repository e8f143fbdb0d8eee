package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
)

// ErrNoCommit says that no commit of the task is known that its state could be brought to. The
// owner of the task may be about to make one.
var ErrNoCommit = errors.New("no commit of the application is known")

// Follower keeps a copy of the state of a task that another process owns. Each step brings the copy
// from one commit of the owner to a later one. So the stores of the copy belong together after each
// step, and a restore goes on from where the copy is. Between two steps, and after a step that has
// failed, the copy is at or below the last commit, as the database of any restore is.
//
// A Follower belongs to one goroutine at a time.
type Follower struct {
	o *opening
	// found is what the last step found of the changelogs. It is looked at again after an error.
	found []Changelog
	// reached are the offsets whose commit the copy is at.
	reached []broker.Offset
	// at is when the commit of the last step was looked at.
	at time.Time
	// first says that no step has ended yet.
	first bool
}

// Follow returns a follower of the task of a request, which is a standby's. The first step opens
// the database.
func (r *Restorer) Follow(req Request, p *Progress) *Follower {
	req.Standby = true
	log := r.Logger.With("task", req.Task.String())
	return &Follower{o: &opening{r: r, req: req, progress: p, log: log}, first: true}
}

// Database returns the copy, nil while there is no usable one.
func (f *Follower) Database() state.Database { return f.o.db }

// Take returns the copy and gives it up, nil if there is no usable one.
func (f *Follower) Take() (state.Database, error) {
	err := f.check()
	db := f.o.db
	f.o.db = nil
	return db, err
}

// writtenEvery is how often a copy that stays at one commit says in its positions that it is as new
// as that: see tooOld.
const writtenEvery = time.Hour

// Step brings the copy to the commit that these offsets carry: those of the inputs of the task, as
// they were committed at a time. Where the copy is there already, it only sees that the database
// works.
//
// It fails with ErrNoCommit while there is no commit to follow, and with a StopError where Restore
// would stop the task. A coordinator that loads can answer with an older commit than one before:
// that is a StopError too, which does not last. After an error the copy is at or below the last
// commit, and the next step goes on there. A database that has failed is closed, and a damaged one
// is removed. The next step opens another one.
func (f *Follower) Step(ctx context.Context, offsets []broker.Offset, at time.Time) error {
	err := f.check()
	if err == nil && f.o.db != nil && slices.Equal(offsets, f.reached) {
		if base := f.o.db.Positions(); at.Sub(time.UnixMilli(base.WrittenAt)) > writtenEvery {
			base.WrittenAt = at.UnixMilli()
			err = f.o.write(base)
		}
	} else if err == nil {
		err = f.step(ctx, offsets)
	}
	if err == nil {
		f.reached, f.at, f.first = offsets, at, false
		return nil
	}
	f.found, f.reached = nil, nil
	if _, failed := errors.AsType[*writeError](err); failed && f.o.db != nil {
		err = f.o.abandon(err)
		f.o.db = nil
	}
	return fmt.Errorf("copying task %s: %w", f.o.req.Task, err)
}

// check closes a database that has failed by itself: it answers nothing any more.
func (f *Follower) check() error {
	if f.o.db == nil {
		return nil
	}
	view, err := f.o.db.View()
	if err == nil {
		err = view.Close()
	}
	if err == nil {
		return nil
	}
	err = f.o.abandon(&writeError{err})
	f.o.db = nil
	return err
}

func (f *Follower) step(ctx context.Context, offsets []broker.Offset) error {
	found, err := f.find(ctx, offsets)
	if err != nil {
		return err
	}
	f.o.came = time.Now() // a step waits for memory by when it came
	var plan Plan
	if f.o.db == nil {
		plan, err = f.o.open(ctx, found)
	} else {
		found.Database = f.o.db.Positions()
		// The copy was at the last commit then, so it has all deletions from before.
		found.Database.WrittenAt = max(found.Database.WrittenAt, f.at.UnixMilli())
		plan, err = Judge(found)
	}
	if err != nil {
		return err
	}
	before := f.o.progress.Read(time.Now())
	// A restore also looks for records behind the commit. Here the owner goes on there.
	if err := f.o.bring(ctx, found, plan); err != nil {
		return err
	}
	if err := f.o.arrive(plan); err != nil {
		return err
	}
	if now := f.o.progress.Read(time.Now()); f.first {
		f.o.log.Info("a copy of a task is at a commit of its owner, and follows", "records", now.Records-before.Records, "bytes", now.Bytes-before.Bytes)
	}
	f.found = found.Changelogs
	return nil
}

// find is that of Restorer, for offsets that are known.
func (f *Follower) find(ctx context.Context, offsets []broker.Offset) (Found, error) {
	r, req := f.o.r, f.o.req
	inputs, metadata := req.committed(offsets)
	found := Found{Task: req.Task, Inputs: inputs, HasState: true, Now: time.Now()}
	if metadata == "" || metadata == Rebuilding {
		return Found{}, ErrNoCommit
	}
	var err error
	if found.Commit, err = r.readMetadata(ctx, req, metadata); err != nil {
		return Found{}, err
	}
	if found.Commit == nil {
		return Found{}, ErrNoCommit
	}
	if err := req.checkMode(found.Commit); err != nil {
		return Found{}, err
	}
	if err := r.findStarts(ctx, req, found.Inputs); err != nil {
		return Found{}, err
	}
	if err := f.brokenCopies(ctx, &found); err != nil {
		return Found{}, err
	}
	for _, s := range req.Stores {
		c, err := f.findChangelog(ctx, s, found)
		if err != nil {
			return Found{}, err
		}
		found.Changelogs = append(found.Changelogs, c)
	}
	return found, nil
}

// findChangelog does not ask for the bounds of a changelog again that the step before has read. A
// log that begins later now answers a fetch with an error, and the next step asks.
func (f *Follower) findChangelog(ctx context.Context, s Store, found Found) (Changelog, error) {
	i := slices.IndexFunc(f.found, func(c Changelog) bool { return c.Store == s.Name })
	target, known := found.Commit.Target(s.Name)
	if i < 0 || !known || s.FromSource != nil {
		return f.o.r.findChangelog(ctx, s, found)
	}
	c := f.found[i]
	c.HighWatermark = max(c.HighWatermark, target)
	return c, nil
}
