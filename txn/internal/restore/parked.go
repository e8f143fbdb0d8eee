package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/task"
)

// ErrParked says that records wait, or may, in a store of parked keys that the topology does not have: their offsets are committed, so that
// nobody would ever process them.
var ErrParked = errors.New("the topology has no place for parked records there")

// checkParked stops a task whose source has lost its ParkKeys while records wait.
func (f Found) checkParked() error {
	if f.Blob == nil {
		return nil
	}
	for _, p := range f.Blob.Parked {
		if slices.ContainsFunc(f.Changelogs, func(c Changelog) bool { return c.Store == p.Store }) {
			continue
		}
		return &StopError{
			Task: f.Task, Cause: ErrParked, Reason: fmt.Sprintf("%d records wait in store %s", p.Records, p.Store),
			WayOut: f.waysOut("give the source its ParkKeys again, without the policies that park, until nothing waits", fromInput,
				withoutParked),
		}
	}
	return nil
}

// ParkStore is a store in which records of an input wait while they are parked.
type ParkStore struct {
	Name           string
	ChangelogTopic string
}

// findParked adds to a commit the records that wait in stores which the topology does not have any more, and of which the commit names the
// changelog and does not say that anything waits. By a build that knows of BlobParked nothing does; but those before it said nothing, and
// the two are not told apart by what is not there. So the changelog is asked, once in the life of a task: the first commit of this
// topology does not name it any more. In a store that the topology has, the rows themselves say what waits.
//
// Because it is asked once, a changelog that is not there, or ends before the commit, does not count as one in which nothing waits: the task
// would go on for good. It is stopped as by a commit that says what waits, which is not asked whether its changelog is there either. That
// records are given up is for an operator to say, and not to be read out of what is missing.
func (r *Restorer) findParked(ctx context.Context, req Request, b *task.Blob) error {
	for _, p := range req.Parking {
		at, named := b.Target(p.Name)
		switch {
		case !named,
			slices.ContainsFunc(req.Stores, func(s Store) bool { return s.Name == p.Name }),
			slices.ContainsFunc(b.Parked, func(said task.BlobParked) bool { return said.Store == p.Name }):
			continue
		}
		var n int64
		c, there, err := r.findParkChangelog(ctx, p, req.Task.Partition, at, absentMax)
		switch {
		case err != nil:
		case !there:
			return &StopError{Task: req.Task, Cause: ErrParked, WayOut: req.waysOut(fromInput, withoutParked), Reason: fmt.Sprintf(
				"the last commit names the changelog %s[%d] of store %s, which is not there, so that it is not known what waits",
				p.ChangelogTopic, req.Task.Partition, p.Name)}
		case c.HighWatermark < at:
			return &StopError{Task: req.Task, WayOut: req.waysOut(fromInput, withoutParked), Reason: fmt.Sprintf(
				"changelog %s[%d] of store %s, which the topology does not have, ends at %d, and the last commit names %d: the cluster lost "+
					"records, so that it is not known what waits", c.Topic, req.Task.Partition, p.Name, c.HighWatermark, at)}
		default:
			n, err = r.countParked(ctx, c, req.Task.Partition, at)
		}
		if err != nil {
			return fmt.Errorf("looking for records that wait in store %s, which the topology does not have: %w", p.Name, err)
		}
		if n > 0 {
			b.Parked = append(b.Parked, task.BlobParked{Store: p.Name, Records: n})
		}
	}
	return nil
}

// Waiting returns how many records wait in a store of parked keys that the topology does not have: as many as the last known commit of the
// task says, or else as the changelog holds, all of it, where the commit names that (see findParked) or is nil. Then known is false where the
// commit names a changelog that is not there, or has lost records.
func (r *Restorer) Waiting(ctx context.Context, last *task.Blob, p ParkStore, partition int32) (n int64, known bool, err error) {
	for _, said := range last.WhereParked() {
		if said.Store == p.Name {
			return said.Records, true, nil
		}
	}
	at, named := last.Target(p.Name)
	if last != nil && !named {
		return 0, true, nil
	}
	patience := absentMax
	if _, before := r.absent.Load(p.ChangelogTopic); before {
		patience = 0
	}
	c, there, err := r.findParkChangelog(ctx, p, partition, at, patience)
	switch {
	case err != nil:
		return 0, false, err
	case !there:
		r.absent.Store(p.ChangelogTopic, true)
		return 0, !named, nil
	case c.HighWatermark < at:
		return 0, false, nil
	}
	n, err = r.countParked(ctx, c, partition, c.HighWatermark)
	return n, err == nil, err
}

// CountParked returns how many records wait in a store of parked keys that the topology has, as its changelog was found: all of it. It waits
// for transactions that are open on it.
func (r *Restorer) CountParked(ctx context.Context, c Changelog, partition int32) (int64, error) {
	return r.countParked(ctx, c, partition, c.HighWatermark)
}

// absentMax is how long a changelog is asked for before its absence is believed: what one broker knows can be old for a moment.
const absentMax = 5 * time.Second

// findParkChangelog finds the changelog of a store that the topology does not have. What is not there is asked for again, for as long as
// patience says; named is where a commit is in it, 0 for none: see logBounds.
func (r *Restorer) findParkChangelog(
	ctx context.Context, p ParkStore, partition int32, named int64, patience time.Duration,
) (c Changelog, there bool, err error) {
	pause := backoff.Backoff{Next: 100 * time.Millisecond, Max: time.Second}
	for until := time.Now().Add(patience); ; {
		found, hidden, err := r.Cluster.Topics(ctx, []string{p.ChangelogTopic})
		info, known := found[p.ChangelogTopic]
		switch {
		case err != nil:
			return Changelog{}, false, err
		case len(hidden) > 0:
			return Changelog{}, false, fmt.Errorf("the permission to describe the topic %s is missing", p.ChangelogTopic)
		case known && info.Partitions == 0:
			return Changelog{}, false, fmt.Errorf("the topic %s has no leader yet", p.ChangelogTopic)
		case known && partition < info.Partitions:
			c = Changelog{Store: p.Name, Topic: p.ChangelogTopic, TopicID: info.ID}
			c.LogStart, c.HighWatermark, err = r.logBounds(ctx, c.Topic, partition, named)
			return c, err == nil, err
		case !time.Now().Before(until):
			return Changelog{}, false, nil
		}
		if err := pause.Wait(ctx); err != nil {
			return Changelog{}, false, err
		}
	}
}

// countParked returns how many records wait in a store of parked keys, as its changelog has it below an offset. It waits for transactions
// that are open below that.
func (r *Restorer) countParked(ctx context.Context, c Changelog, partition int32, to int64) (int64, error) {
	waiting := map[string]struct{}{}
	reader := r.Cluster.NewReader(c.Topic, c.TopicID, partition, true, 1<<20)
	stable := r.watchStable(r.Logger, c.Topic, partition, to)
	for at := c.LogStart; at < to; {
		f, err := reader.Fetch(ctx, at, fetchWait)
		if err != nil {
			return 0, err
		}
		stable.fetched(ctx, at, f.Next, f.LastStableOffset)
		for _, row := range f.Records {
			switch {
			case row.Offset >= to || !topology.IsParkedRecord(row.Key):
			case row.Value == nil:
				delete(waiting, string(row.Key))
			default:
				waiting[string(row.Key)] = struct{}{}
			}
		}
		at = f.Next
	}
	return int64(len(waiting)), nil
}
