package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/task"
)

// ErrParked says that records wait in a store of parked keys that the topology does not have: their offsets are committed, so that nobody
// would ever process them.
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
func (r *Restorer) findParked(ctx context.Context, req Request, b *task.Blob) error {
	for _, p := range req.Parking {
		at, named := b.Target(p.Name)
		switch {
		case !named,
			slices.ContainsFunc(req.Stores, func(s Store) bool { return s.Name == p.Name }),
			slices.ContainsFunc(b.Parked, func(said task.BlobParked) bool { return said.Store == p.Name }):
			continue
		}
		n, err := r.CountParked(ctx, p.ChangelogTopic, req.Task.Partition, at)
		if err != nil {
			return fmt.Errorf("looking for records that wait in store %s, which the topology does not have: %w", p.Name, err)
		}
		if n > 0 {
			b.Parked = append(b.Parked, task.BlobParked{Store: p.Name, Records: n})
		}
	}
	return nil
}

// CountParked returns how many records wait in a store of parked keys, as its changelog has it below an offset. A topic that is not there
// any more has none: whoever deleted it has given them up. It waits for transactions that are open below the offset.
func (r *Restorer) CountParked(ctx context.Context, topic string, partition int32, to int64) (int64, error) {
	found, hidden, err := r.Cluster.Topics(ctx, []string{topic})
	info, there := found[topic]
	switch {
	case err != nil:
		return 0, err
	case len(hidden) > 0:
		return 0, fmt.Errorf("the permission to describe the topic %s is missing", topic)
	case !there || partition >= info.Partitions:
		return 0, nil
	}
	at, highWatermark, err := r.Cluster.LogBounds(ctx, topic, partition)
	if err != nil {
		return 0, err
	}
	to = min(to, highWatermark)
	waiting := map[string]struct{}{}
	reader, stable := r.Cluster.NewReader(topic, info.ID, partition, true, 1<<20), r.watchStable(r.Logger, topic, partition, to)
	for at < to {
		var f broker.Fetched
		if f, err = reader.Fetch(ctx, at, fetchWait); err != nil {
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
