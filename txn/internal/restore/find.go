package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/topics"
)

// fetchWait is how long a broker waits for records before it says that there are none.
const fetchWait = 250 * time.Millisecond

// find reads in the order that the package comment demands: offsets before changelogs. It also
// returns the metadata text itself.
func (r *Restorer) find(ctx context.Context, req Request) (found Found, metadata string, err error) {
	if found, metadata, err = r.findInputs(ctx, req); err != nil {
		return Found{}, "", err
	}
	if found.Commit, err = r.commit(ctx, req, found, metadata); err != nil {
		return Found{}, "", err
	}
	for _, s := range req.Stores {
		c, err := r.findChangelog(ctx, s, found)
		if err != nil {
			return Found{}, "", err
		}
		found.Changelogs = append(found.Changelogs, c)
	}
	if found.Kept, err = r.kept(ctx, found); err != nil {
		return Found{}, "", err
	}
	return found, metadata, nil
}

// kept says what Found.Kept is. It reads the rounds topic, which holds next to nothing where a task
// is new.
func (r *Restorer) kept(ctx context.Context, found Found) (kept bool, err error) {
	fromSource := func(c Changelog) bool { return c.FromSource != nil }
	if found.anyCommitted() || !slices.ContainsFunc(found.Changelogs, fromSource) {
		return false, nil
	}
	t, there := r.Layout[r.RoundsTopic]
	if !there { // a plan looks before the first start
		return false, nil
	}
	at, _, err := r.Cluster.LogBounds(ctx, t.Name, 0)
	if err != nil {
		return false, err
	}
	end, err := r.Cluster.StableEnd(ctx, t.Name, 0)
	if err != nil {
		return false, err
	}
	key := string(task.PositionsKey(found.Task.String()))
	reader := r.Cluster.NewReader(t.Name, t.ID, 0, true, 1<<20)
	for at < end {
		f, err := reader.Fetch(ctx, at, fetchWait)
		if err != nil {
			return false, err
		}
		for _, record := range f.Records {
			if string(record.Key) == key {
				kept = len(record.Value) > 0 // the first commit of a life deletes it
			}
		}
		at = f.Next
	}
	return kept, nil
}

// findInputs is the first part of find: what the group has committed.
func (r *Restorer) findInputs(ctx context.Context, req Request) (found Found, metadata string, err error) {
	found = Found{Task: req.Task, HasState: len(req.Stores) > 0, Now: time.Now()}
	partitions := map[string][]int32{}
	for _, s := range req.Sources {
		partitions[s.Topic] = []int32{req.Task.Partition}
	}
	if err := r.Failpoints.Hit(ctx, failpoint.StableBefore); err != nil {
		return Found{}, "", err
	}
	waiting := r.Waits.Offsets(req.Task.String())
	offsets, err := r.Cluster.StableOffsets(ctx, partitions, waiting.Still)
	waiting.Over()
	if err == nil {
		err = r.Failpoints.Hit(ctx, failpoint.StableAfter)
	}
	if err != nil {
		return Found{}, "", err
	}
	found.Inputs, metadata = req.committed(offsets)
	if err := r.findStarts(ctx, req, found.Inputs); err != nil {
		return Found{}, "", err
	}
	found.Rebuilding = metadata == Rebuilding
	return found, metadata, nil
}

// committed returns the inputs with these offsets, and the metadata of the commit.
func (r *Request) committed(offsets []broker.Offset) (inputs []Input, metadata string) {
	for i, s := range r.Sources {
		in := Input{Topic: s.Topic, Partition: r.Task.Partition, Committed: -1}
		for _, o := range offsets {
			if o.Topic == s.Topic {
				in.Committed = o.At
				if i == 0 {
					metadata = o.Metadata
				}
			}
		}
		inputs = append(inputs, in)
	}
	return inputs, metadata
}

// findStarts finds where the inputs begin that have no commit.
func (r *Restorer) findStarts(ctx context.Context, req Request, inputs []Input) (err error) {
	for i := range inputs {
		if in := &inputs[i]; in.Committed < 0 {
			if in.Start, err = r.start(ctx, req.Sources[i], in.Partition); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit returns what the last commit says, nil if it is not ours, with what an older build has not
// said of parked records. Where that is not to be found out, the rest of it is returned beside a
// StopError; so is nothing where no commit is known, and records wait.
func (r *Restorer) commit(ctx context.Context, req Request, found Found, metadata string) (*task.CommitMetadata, error) {
	b, err := r.readMetadata(ctx, req, metadata)
	switch {
	case err != nil:
	case b != nil:
		err = r.findParked(ctx, req, b)
	case !found.Rebuilding: // then what waits is read again with its input
		err = r.findParkedWithoutCommit(ctx, req, found)
	}
	return b, err
}

// readMetadata returns what the metadata says, nil if it does not speak our language. Metadata can
// refer to a record of the rounds topic; the record must then be there, and be the one that is
// meant.
func (r *Restorer) readMetadata(ctx context.Context, req Request, metadata string) (*task.CommitMetadata, error) {
	id := req.Task
	ref, ok := task.ParseReference(metadata)
	if !ok {
		committed, err := task.ParseCommitMetadata(metadata)
		if errors.Is(err, state.ErrFormat) {
			return nil, newer(id, "its last commit", err)
		}
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // metadata of another program is no error here, Judge decides what it means
		}
		return &committed, nil
	}
	t, there := r.Layout[r.RoundsTopic] // a plan and Left look before the start that creates the topic
	reader := r.Cluster.NewReader(t.Name, t.ID, ref.Partition, false, 1<<20)
	var f broker.Fetched
	for reading := 0; there && len(f.Records) == 0 && reading < watermarkReadings; reading++ {
		var err error
		f, err = reader.Fetch(ctx, ref.Offset, fetchWait)
		if errors.Is(err, broker.ErrOffsetOutOfRange) {
			// Above the end it may still come: a new leader may not know its high watermark yet.
			// Below the start it is gone.
			start, _, boundsErr := r.Cluster.LogBounds(ctx, t.Name, ref.Partition)
			if boundsErr == nil && start > ref.Offset {
				break
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if len(f.Records) > 0 && f.Records[0].Offset == ref.Offset && string(f.Records[0].Key) == string(task.RecordKey(id.String())) {
		committed, err := task.ParseCommitMetadata(string(f.Records[0].Value))
		if errors.Is(err, state.ErrFormat) {
			return nil, newer(id, "its last commit", err)
		}
		if err == nil && committed.Round == ref.Round {
			return &committed, nil
		}
	}
	return nil, &StopError{Task: id, Recovery: req.recoveryActions(adopt, fromInput), Reason: fmt.Sprintf(
		"the last commit names the record at %s[%d] offset %d, and that is not there", r.RoundsTopic, ref.Partition, ref.Offset)}
}

// newer stops a task because a newer build has written something of it.
func newer(id graph.TaskID, what string, err error) *StopError {
	return &StopError{Task: id, Cause: err, Reason: what + " is that of a newer build",
		Recovery: "Recovery action: run that build or a newer one, which goes on from there"}
}

func (r *Restorer) start(ctx context.Context, s Source, partition int32) (int64, error) {
	if s.Start != nil {
		return s.Start(ctx, partition)
	}
	start, _, err := r.Cluster.LogBounds(ctx, s.Topic, partition)
	return start, err
}

// A high watermark below the last commit's position is believed only when it stays there: a new
// leader may not know its own yet.
const (
	watermarkReadings = 3
	watermarkPause    = 5 * time.Second
)

// logBounds returns where a log begins and ends, of which the last commit names a position. An end
// before that is believed after so many readings.
func (r *Restorer) logBounds(
	ctx context.Context, topic string, partition int32, named int64, readings int,
) (start, highWatermark int64, err error) {
	for reading := 1; ; reading++ {
		start, highWatermark, err = r.Cluster.LogBounds(ctx, topic, partition)
		if err != nil || named <= highWatermark || reading >= readings {
			return start, highWatermark, err
		}
		if err := backoff.Sleep(ctx, watermarkPause); err != nil {
			return 0, 0, err
		}
	}
}

func (r *Restorer) findChangelog(ctx context.Context, s Store, found Found) (Changelog, error) {
	t, committed, partition := r.Layout[s.ChangelogTopic], found.Commit, found.Task.Partition
	c := Changelog{Store: s.Name, Topic: s.ChangelogTopic, TopicID: t.ID, DeleteRetention: t.DeleteRetention, Deletes: t.Deletes,
		Retention: t.Retention, Layout: s.Layout, Parks: s.Parks, InMemory: s.InMemory}
	if s.FromSource != nil {
		c.FromSource, c.Compacted, c.CompactionLag = s.FromSource, t.Compacted, t.CompactionLag
		c.Deletes, c.Retention = false, 0 // no record of it may expire
		c.Taken = found.taken(c.Topic)
	}
	target, known := committed.Target(s.Name)
	var err error
	if c.LogStart, c.HighWatermark, err = r.logBounds(ctx, s.ChangelogTopic, partition, target, watermarkReadings); err != nil {
		return Changelog{}, err
	}
	if known || s.FromSource != nil {
		return c, nil // what the log holds beyond the commit does not matter
	}
	c.Empty, err = r.empty(ctx, t, found.Task, c.LogStart, c.HighWatermark)
	return c, err
}

// committedNow reports whether a committed record can be read at or after an offset. Unlike empty
// it does not wait. A transaction that is open now belongs to a round that is not the last commit's
// either, and the task must not wait for the producer that left it open.
func (r *Restorer) committedNow(ctx context.Context, c Changelog, partition int32, from int64) (bool, error) {
	stable, err := r.Cluster.StableEnd(ctx, c.Topic, partition)
	if err != nil {
		return false, err
	}
	return r.committed(ctx, r.Layout[c.Topic], partition, max(from, c.LogStart), stable, func(int64, broker.Fetched) {})
}

// empty reports whether no committed record is in the log. It waits for transactions that are open
// below the high watermark.
func (r *Restorer) empty(ctx context.Context, t topics.Topic, id graph.TaskID, from, highWatermark int64) (bool, error) {
	waiting := r.watchStable(t.Name, id)
	defer waiting.Over()
	committed, err := r.committed(ctx, t, id.Partition, from, highWatermark, func(at int64, f broker.Fetched) {
		waiting.fetched(ctx, at, f.Next)
	})
	return !committed, err
}

// committed reports whether there is a committed record from from on and below to. Each is told
// what was fetched.
func (r *Restorer) committed(
	ctx context.Context, t topics.Topic, partition int32, from, to int64, each func(at int64, f broker.Fetched),
) (bool, error) {
	reader := r.Cluster.NewReader(t.Name, t.ID, partition, true, 64<<10)
	for from < to {
		f, err := reader.Fetch(ctx, from, fetchWait)
		if err != nil {
			return false, err
		}
		each(from, f)
		if len(f.Records) > 0 {
			return true, nil
		}
		from = f.Next
	}
	return false, nil
}
