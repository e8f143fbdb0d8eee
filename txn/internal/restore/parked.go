package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/task"
)

// ErrParked says that records wait, or may wait, in a store of parked keys that the topology does
// not have. Their offsets are committed, so that they would never be processed.
var ErrParked = errors.New("the topology has no place for parked records there")

// parked stops a task because of records that wait, or may. The commit by which they do can be an
// old one that a coordinator answers while it loads, from before they were processed.
func parked(id graph.TaskID, cause error, recovery, reason string, args ...any) *StopError {
	return &StopError{Task: id, Cause: cause, Recovery: recovery, Reason: fmt.Sprintf(reason, args...), Parked: true, older: true}
}

// checkParked stops a task whose source has lost its ParkKeys while records wait.
func (f Found) checkParked() error {
	for _, p := range f.Commit.WhereParked() {
		if !slices.ContainsFunc(f.Changelogs, func(c Changelog) bool { return c.Store == p.Store }) {
			return parked(f.Task, ErrParked, f.recoveryActions(parkKeysAgain, fromInput, withoutParked), "%d records wait in store %s", p.Records, p.Store)
		}
	}
	return nil
}

// ParkStore is a store in which records of an input wait while they are parked.
type ParkStore struct {
	Name           string
	ChangelogTopic string
}

// unplaced returns the stores of parked records that the topology does not have.
func (r Request) unplaced() []ParkStore {
	return slices.DeleteFunc(slices.Clone(r.Parking), func(p ParkStore) bool {
		return slices.ContainsFunc(r.Stores, func(s Store) bool { return s.Name == p.Name })
	})
}

// findParked adds to a commit the records that wait in stores which the topology does not have any
// more, and of which the commit names the changelog and does not say that anything waits. By a
// build that knows of CommittedParked nothing does; but those before it said nothing, and the two
// are not told apart by what is not there. So the changelog is asked, once in the life of a task:
// the first commit of this topology does not name it any more. In a store that the topology has,
// the rows themselves say what waits.
//
// Because it is asked once, a changelog that is not there, may not be seen, or has lost records
// does not count as one in which nothing waits: the task would go on for good. It is stopped as by
// a commit that says what waits, which is not asked whether its changelog is there either. That
// records are given up is for an operator to say, and not to be read out of what is missing. One
// that the commit names at 0 is not asked: nothing was ever in it, and there may be neither the
// topic nor a permission for it.
func (r *Restorer) findParked(ctx context.Context, req Request, b *task.CommitMetadata) error {
	for _, p := range req.unplaced() {
		at, _ := b.Target(p.Name)
		if at == 0 || slices.ContainsFunc(b.Parked, func(said task.CommittedParked) bool { return said.Store == p.Name }) {
			continue
		}
		c, err := r.findParkChangelog(ctx, p, req.Task.Partition, at, true)
		if err != nil {
			return looking(p, err)
		}
		if why := c.untold(at); why != "" {
			cause, ways := ErrParked, []string{fromInput, withoutParked}
			switch {
			case c.hidden:
				ways = append([]string{allowRead}, ways...)
			case c.there:
				cause = nil // state and offsets do not name each other
			}
			return parked(req.Task, cause, req.recoveryActions(ways...), "the last commit names the changelog %s[%d], which %s: "+
				"the records that wait in store %s are unknown, and the topology does not have that store", p.ChangelogTopic, req.Task.Partition, why, p.Name)
		}
		n, err := r.countParked(ctx, c.Changelog, req.Task, at)
		if err != nil {
			return looking(p, err)
		}
		if n > 0 {
			b.Parked = append(b.Parked, task.CommittedParked{Store: p.Name, Records: n})
		}
	}
	return nil
}

// findParkedWithoutCommit stops a task without a known commit while records wait in a store that
// the topology does not have. Nothing else reports these records, and the first commit would not
// name the store any more. The changelog is read at once and once. A changelog that does not exist,
// or that the application may not see, counts as empty: few applications ever had it, and brokers
// answer the same in both cases.
func (r *Restorer) findParkedWithoutCommit(ctx context.Context, req Request, found Found) error {
	for _, p := range req.unplaced() {
		c, err := r.findParkChangelog(ctx, p, req.Task.Partition, 0, false)
		n := int64(0)
		if err == nil && c.there {
			n, err = r.countParked(ctx, c.Changelog, req.Task, c.HighWatermark)
		}
		switch {
		case err != nil:
			return looking(p, err)
		case n == 0:
			continue
		}
		keep := withoutParked
		if !found.anyCommitted() {
			keep = fromRoundsWithoutParked
		}
		return parked(req.Task, ErrParked, req.recoveryActions(parkKeysAgain, fromInput, keep),
			"%d records wait in store %s, as its changelog %s[%d] has it, and no commit is known that would say more", n, p.Name, p.ChangelogTopic,
			req.Task.Partition)
	}
	return nil
}

func looking(p ParkStore, err error) error {
	return fmt.Errorf("looking for records that wait in store %s, which the topology does not have: %w", p.Name, err)
}

// Waiting returns how many records wait in a store of parked keys that the topology does not have:
//   - the number that the last known commit of the task says, if it says one,
//   - else the number in the whole changelog, if the commit names that (see findParked) or is nil.
//
// If the changelog cannot tell it, untold says why: the changelog does not exist although the
// commit has a position in it, the application may not see it, or it has lost records.
func (r *Restorer) Waiting(ctx context.Context, last *task.CommitMetadata, p ParkStore, id graph.TaskID) (n int64, untold string, err error) {
	for _, said := range last.WhereParked() {
		if said.Store == p.Name {
			return said.Records, "", nil
		}
	}
	at, named := last.Target(p.Name)
	if last != nil && !named {
		return 0, "", nil
	}
	c, err := r.findParkChangelog(ctx, p, id.Partition, at, true)
	switch {
	case err != nil:
		return 0, "", looking(p, err)
	case at == 0 && !c.there && !c.hidden:
		return 0, "", nil // few applications ever had it, or nothing was ever in it
	case !named:
		at = c.HighWatermark // all of it counts
	}
	if why := c.untold(at); why != "" {
		return 0, why, nil
	}
	n, err = r.countParked(ctx, c.Changelog, id, c.HighWatermark)
	return n, "", err
}

// CountParked returns how many records wait in a store of parked keys that the topology has, as its
// changelog was found: all of it. It waits for transactions that are open on it.
func (r *Restorer) CountParked(ctx context.Context, c Changelog, id graph.TaskID) (int64, error) {
	return r.countParked(ctx, c, id, c.HighWatermark)
}

// absentMax is how long a changelog is asked for before its absence is believed: what one broker
// knows can be old for a moment.
const absentMax = 5 * time.Second

// question is one that brokers can answer wrongly for a moment: whether there is a topic, with no
// partition, or where the log of one ends.
type question struct {
	topic     string
	partition int32
}

const noPartition = -1

// parkChangelog is what was found of the changelog of a store that the topology does not have.
type parkChangelog struct {
	Changelog
	there bool
	// hidden says that it may not be described. Brokers say the same of a topic that is not there.
	hidden bool
}

// untold says why the changelog does not tell what waits as of a commit at an offset of it, empty
// if it does.
func (c parkChangelog) untold(at int64) string {
	switch {
	case c.hidden:
		return "may not be described, or is not there"
	case !c.there:
		return "is not there"
	}
	return c.Lost(at)
}

// Lost says what the changelog of a store of parked records has lost of what a commit at an offset
// of it can have had there, empty if nothing. Compaction, which is all that happens to such a log
// by itself, moves neither its beginning nor its end.
func (c Changelog) Lost(at int64) string {
	switch {
	case at > c.HighWatermark:
		return fmt.Sprintf("ends at %d, before offset %d that the commit names, as the cluster lost records", c.HighWatermark, at)
	case at > 0 && c.LogStart > 0:
		return fmt.Sprintf("begins at %d, as records were deleted", c.LogStart)
	}
	return ""
}

// findParkChangelog finds the changelog of a store that the topology does not have; named is where
// a commit is in it, 0 for none. With patience, what is not there is asked for again, for as long
// as absentMax, and where it ends as by logBounds; once for all tasks and readings.
func (r *Restorer) findParkChangelog(
	ctx context.Context, p ParkStore, partition int32, named int64, patient bool,
) (parkChangelog, error) {
	presence, until := question{p.ChangelogTopic, noPartition}, time.Now()
	if _, before := r.believed.Load(presence); patient && !before {
		until = until.Add(absentMax)
	}
	pause := backoff.Backoff{Next: 100 * time.Millisecond, Max: time.Second}
	for {
		found, hidden, err := r.Cluster.Topics(ctx, []string{p.ChangelogTopic})
		info, known := found[p.ChangelogTopic]
		switch {
		case err != nil:
			return parkChangelog{}, err
		case len(hidden) > 0:
			return parkChangelog{hidden: true}, nil
		case known && info.Partitions == 0:
			return parkChangelog{}, fmt.Errorf("the topic %s has no leader yet", p.ChangelogTopic)
		case known && partition < info.Partitions:
			r.believed.Delete(presence)
			c := parkChangelog{Changelog: Changelog{Store: p.Name, Topic: p.ChangelogTopic, TopicID: info.ID}, there: true}
			c.LogStart, c.HighWatermark, err = r.parkLogBounds(ctx, c.Topic, partition, named)
			return c, err
		case !time.Now().Before(until):
			if patient {
				r.believed.Store(presence, true)
			}
			return parkChangelog{}, nil
		}
		if err := pause.Wait(ctx); err != nil {
			return parkChangelog{}, err
		}
	}
}

// parkLogBounds is logBounds, with patience for a log once.
func (r *Restorer) parkLogBounds(ctx context.Context, topic string, partition int32, named int64) (start, highWatermark int64, err error) {
	end, readings := question{topic, partition}, watermarkReadings
	if _, before := r.believed.Load(end); before {
		readings = 1
	}
	start, highWatermark, err = r.logBounds(ctx, topic, partition, named, readings)
	switch {
	case err != nil:
	case highWatermark < named:
		r.believed.Store(end, true)
	default:
		r.believed.Delete(end)
	}
	return start, highWatermark, err
}

// countParked returns how many records wait in a store of parked keys, as its changelog has it
// below an offset. It waits for transactions that are open below that.
func (r *Restorer) countParked(ctx context.Context, c Changelog, id graph.TaskID, to int64) (int64, error) {
	waiting := map[string]struct{}{}
	reader := r.Cluster.NewReader(c.Topic, c.TopicID, id.Partition, true, 1<<20)
	stable := r.watchStable(c.Topic, id)
	defer stable.Over()
	for at := c.LogStart; at < to; {
		f, err := reader.Fetch(ctx, at, fetchWait)
		if err != nil {
			return 0, err
		}
		stable.fetched(ctx, at, f.Next)
		for _, row := range f.Records {
			switch {
			case row.Offset >= to || !graph.IsParkedRecord(row.Key):
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
