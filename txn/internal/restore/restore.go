package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/topics"
)

// Source is one input topic of a task.
type Source struct {
	Topic string
	// Start resolves where a new application starts; nil is the start of the log.
	Start func(ctx context.Context, partition int32) (int64, error)
}

// Store is one store of a task.
type Store struct {
	Name           string
	ChangelogTopic string
}

// Request is one task to open.
type Request struct {
	Task    topology.TaskID
	Sources []Source // sorted by topic
	Stores  []Store  // sorted by name
	// Open opens the task's database, Remove deletes it. Both are nil for a task without stores.
	Open   func() (state.Database, error)
	Remove func() error
}

// Result is a task's committed state.
type Result struct {
	Positions state.Positions
	Metadata  string
	// Database is open and at Positions; nil for a task without stores.
	Database state.Database
	// Full is why the database was emptied first, empty if it was not.
	Full Cause
}

// Progress can be read while a restore runs.
type Progress struct {
	// Records and Bytes count what was read, Remaining is the distance to the targets in offsets.
	Records, Bytes, Remaining atomic.Int64
}

// Restorer opens tasks. It is safe for concurrent use.
type Restorer struct {
	Cluster *broker.Cluster
	Layout  topics.Layout
	Logger  *slog.Logger
	// RoundsTopic holds the blobs that were too large for the metadata.
	RoundsTopic string
	// StuckAfter is how long a wait for the last stable offset may take before it is reported, and then again. Now is the clock of
	// these reports; nil is the machine's.
	StuckAfter time.Duration
	Now        func() time.Time
	// Metrics counts the restores.
	Metrics *metrics.Metrics
	// running counts the restores at work.
	running chan struct{}
}

// New returns a restorer.
func New(r Restorer) *Restorer {
	r.running = make(chan struct{}, parallelRestores)
	if r.Now == nil {
		r.Now = time.Now
	}
	return &r
}

const (
	fetchBytes = 4 << 20
	fetchWait  = 250 * time.Millisecond
	// batchRecords bounds what is kept in memory before it goes to the database.
	batchRecords = 32768
	batchBytes   = 16 << 20
	// parallelRestores bounds how many tasks are restored at a time, and with it the memory of all their batches.
	parallelRestores = 4
)

// Restore brings the task to its last commit. A StopError says that it must not be opened; other errors are worth another try.
func (r *Restorer) Restore(ctx context.Context, req Request, p *Progress) (result Result, err error) {
	log := r.Logger.With("task", req.Task.String())
	found, metadata, err := r.find(ctx, req, log)
	if err != nil {
		return Result{}, fmt.Errorf("opening task %s: %w", req.Task, err)
	}
	if !found.HasState {
		plan, err := Judge(found)
		return Result{Positions: plan.Positions, Metadata: metadata}, err
	}
	select {
	case r.running <- struct{}{}:
		defer func() { <-r.running }()
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	if err := failpoint.Hit(ctx, failpoint.OpenBefore); err != nil {
		return Result{}, err
	}
	var full Cause
	defer r.count(req.Task, p, &full, &err)()
	db, err := req.Open()
	if errors.Is(err, state.ErrCorrupt) {
		full = Damaged
		log.Warn("the database is damaged and is restored in full", "error", err)
		if err := req.Remove(); err != nil {
			return Result{}, err
		}
		db, err = req.Open()
	}
	if errors.Is(err, state.ErrFormat) {
		return Result{}, newer(req.Task, "its database", err)
	}
	if err != nil {
		return Result{}, fmt.Errorf("opening the database of task %s: %w", req.Task, err)
	}
	found.Database = db.Positions()
	if full == "" && len(found.Database.Changelogs) == 0 {
		full = Absent
	}
	result, err = r.restoreState(ctx, req, found, db, p, log)
	result.Metadata = metadata
	full = cmp.Or(result.Full, full)
	if err != nil {
		return Result{}, errors.Join(err, closeAfter(result.Database, db))
	}
	return result, nil
}

// count notes where a restore begins; what it returns counts what was done when it is over.
func (r *Restorer) count(id topology.TaskID, p *Progress, full *Cause, err *error) func() {
	began, records, bytes := time.Now(), p.Records.Load(), p.Bytes.Load()
	return func() {
		if *full == Absent && p.Records.Load() == records {
			*full = "" // a new task, and nothing to restore
		}
		r.Metrics.Restored(metrics.Restore{
			Task: id, Full: *full != "", Reason: string(*full), Took: time.Since(began), Failed: *err != nil,
			Records: p.Records.Load() - records, Bytes: p.Bytes.Load() - bytes,
		})
	}
}

// closeAfter closes the database that is open now: a wiped one was replaced.
func closeAfter(now, before state.Database) error {
	if now != nil {
		return now.Close()
	}
	return before.Close()
}

// find reads in the order that the package comment demands: offsets before changelogs. It also returns the metadata text itself.
func (r *Restorer) find(ctx context.Context, req Request, log *slog.Logger) (found Found, metadata string, err error) {
	if found, metadata, err = r.findInputs(ctx, req); err != nil {
		return Found{}, "", err
	}
	if found.Blob, err = r.blob(ctx, req.Task, metadata); err != nil {
		return Found{}, "", err
	}
	for _, s := range req.Stores {
		c, err := r.findChangelog(ctx, s, req.Task.Partition, found.Blob, log)
		if err != nil {
			return Found{}, "", err
		}
		found.Changelogs = append(found.Changelogs, c)
	}
	return found, metadata, nil
}

// findInputs is the first part of find: what the group has committed.
func (r *Restorer) findInputs(ctx context.Context, req Request) (found Found, metadata string, err error) {
	found = Found{Task: req.Task, HasState: len(req.Stores) > 0, Now: time.Now()}
	partitions := map[string][]int32{}
	for _, s := range req.Sources {
		partitions[s.Topic] = []int32{req.Task.Partition}
	}
	if err := failpoint.Hit(ctx, failpoint.StableBefore); err != nil {
		return Found{}, "", err
	}
	offsets, err := r.Cluster.StableOffsets(ctx, partitions)
	if err == nil {
		err = failpoint.Hit(ctx, failpoint.StableAfter)
	}
	if err != nil {
		return Found{}, "", err
	}
	for i, s := range req.Sources {
		in := Input{Topic: s.Topic, Partition: req.Task.Partition, Committed: -1}
		for _, o := range offsets {
			if o.Topic == s.Topic {
				in.Committed = o.At
				if i == 0 {
					metadata = o.Metadata
				}
			}
		}
		if in.Committed < 0 {
			if in.Start, err = r.start(ctx, s, req.Task.Partition); err != nil {
				return Found{}, "", err
			}
		}
		found.Inputs = append(found.Inputs, in)
	}
	return found, metadata, nil
}

// blob returns what the metadata says, nil if it does not speak our language. Metadata can refer to a record of the rounds topic; the
// record must then be there, and be the one that is meant.
func (r *Restorer) blob(ctx context.Context, id topology.TaskID, metadata string) (*task.Blob, error) {
	ref, ok := task.ParseReference(metadata)
	if !ok {
		blob, err := task.ParseBlob(metadata)
		if errors.Is(err, state.ErrFormat) {
			return nil, newer(id, "its last commit", err)
		}
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // metadata of another program is no error here, Judge decides what it means
		}
		return &blob, nil
	}
	t := r.Layout[r.RoundsTopic]
	reader := r.Cluster.NewReader(t.Name, t.ID, ref.Partition, false, 1<<20)
	var f broker.Fetched
	for reading := 0; len(f.Records) == 0 && reading < watermarkReadings; reading++ {
		var err error
		f, err = reader.Fetch(ctx, ref.Offset, fetchWait)
		if errors.Is(err, broker.ErrOffsetOutOfRange) {
			// Above the end it may still come: a new leader may not know its high watermark yet. Below the start it is gone.
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
		blob, err := task.ParseBlob(string(f.Records[0].Value))
		if errors.Is(err, state.ErrFormat) {
			return nil, newer(id, "its last commit", err)
		}
		if err == nil && blob.Round == ref.Round {
			return &blob, nil
		}
	}
	return nil, &StopError{Task: id, WayOut: waysOut(id, adopt, fromInput), Reason: fmt.Sprintf(
		"the last commit names the record at %s[%d] offset %d, and that is not there", r.RoundsTopic, ref.Partition, ref.Offset)}
}

// newer stops a task because a newer build has written something of it.
func newer(id topology.TaskID, what string, err error) *StopError {
	return &StopError{Task: id, Cause: err, Reason: what + " is that of a newer build",
		WayOut: "Way out: run that build or a newer one, which goes on from there"}
}

func (r *Restorer) start(ctx context.Context, s Source, partition int32) (int64, error) {
	if s.Start != nil {
		return s.Start(ctx, partition)
	}
	start, _, err := r.Cluster.LogBounds(ctx, s.Topic, partition)
	return start, err
}

// A high watermark below the last commit's position is believed only when it stays there: a new leader may not know its own yet.
const (
	watermarkReadings = 3
	watermarkPause    = 5 * time.Second
)

func (r *Restorer) findChangelog(
	ctx context.Context, s Store, partition int32, blob *task.Blob, log *slog.Logger,
) (Changelog, error) {
	t := r.Layout[s.ChangelogTopic]
	c := Changelog{Store: s.Name, Topic: s.ChangelogTopic, TopicID: t.ID, DeleteRetention: t.DeleteRetention}
	for reading := 1; ; reading++ {
		var err error
		if c.LogStart, c.HighWatermark, err = r.Cluster.LogBounds(ctx, s.ChangelogTopic, partition); err != nil {
			return Changelog{}, err
		}
		if target, _ := blob.Target(s.Name); target <= c.HighWatermark || reading == watermarkReadings {
			break
		}
		if err := backoff.Sleep(ctx, watermarkPause); err != nil {
			return Changelog{}, err
		}
	}
	if _, known := blob.Target(s.Name); known {
		return c, nil // what the log holds beyond the commit does not matter
	}
	var err error
	c.Empty, err = r.empty(ctx, t, partition, c.LogStart, c.HighWatermark, log)
	return c, err
}

// empty reports whether no committed record is in the log. It waits for transactions that are open below the high watermark.
func (r *Restorer) empty(
	ctx context.Context, t topics.Topic, partition int32, from, highWatermark int64, log *slog.Logger,
) (bool, error) {
	reader := r.Cluster.NewReader(t.Name, t.ID, partition, true, 64<<10)
	waiting := r.watchStable(log, t.Name, partition, highWatermark)
	for from < highWatermark {
		f, err := reader.Fetch(ctx, from, fetchWait)
		if err != nil {
			return false, err
		}
		waiting.fetched(ctx, from, f)
		if len(f.Records) > 0 {
			return false, nil
		}
		from = f.Next
	}
	return true, nil
}

func (r *Restorer) restoreState(
	ctx context.Context, req Request, found Found, db state.Database, p *Progress, log *slog.Logger,
) (Result, error) {
	plan, err := Judge(found)
	if err != nil {
		return Result{}, err
	}
	if plan.Wipe {
		log.Warn("state is restored in full", "reason", plan.WipeReason)
		if err := db.Close(); err != nil {
			return Result{}, err
		}
		if err := req.Remove(); err != nil {
			return Result{}, err
		}
		if db, err = req.Open(); err != nil {
			return Result{}, err
		}
	}
	result := Result{Positions: plan.Positions, Database: db, Full: plan.WipeCause}
	names := make([]string, 0, len(req.Stores))
	for _, s := range req.Stores {
		names = append(names, s.Name)
	}
	if err := db.Declare(names...); err != nil {
		return result, err
	}
	started := time.Now()
	if err := r.replay(ctx, req, plan, db, p, log); err != nil {
		return result, fmt.Errorf("restoring task %s: %w", req.Task, err)
	}
	if err := failpoint.Hit(ctx, failpoint.RestoreAfter); err != nil {
		return result, err
	}
	if n := p.Records.Load(); n > 0 {
		log.Info("restored", "records", n, "bytes", p.Bytes.Load(), "took", time.Since(started).Round(time.Millisecond))
	}
	return result, nil
}

// replay reads every changelog to its target and leaves the database at the plan's positions.
func (r *Restorer) replay(ctx context.Context, req Request, plan Plan, db state.Database, p *Progress, log *slog.Logger) error {
	var remaining int64
	for _, c := range plan.Replays {
		remaining += max(c.Target-c.From, 0)
	}
	p.Remaining.Store(remaining)
	for _, c := range plan.Replays {
		if c.From >= c.Target {
			continue
		}
		if err := r.replayOne(ctx, req, c, db, p, log); err != nil {
			return err
		}
	}
	base := db.Positions()
	if base.Same(plan.Positions) {
		return nil
	}
	return db.Apply(base, plan.Positions, func(func(state.Write) bool) {})
}

// replayOne applies one changelog in batches. Positions move with every batch; applied stays below the target until the plan's own
// positions are written, so that a restore that was killed is never taken for a complete one.
func (r *Restorer) replayOne(ctx context.Context, req Request, c Replay, db state.Database, p *Progress, log *slog.Logger) error {
	reader := r.Cluster.NewReader(c.Topic, c.TopicID, req.Task.Partition, true, fetchBytes)
	batch := newBatch(state.IDOf(c.Store))
	waiting := r.watchStable(log, c.Topic, req.Task.Partition, c.Target)
	for at := c.From; at < c.Target; {
		f, err := reader.Fetch(ctx, at, fetchWait)
		if err != nil {
			return err
		}
		waiting.fetched(ctx, at, f)
		for _, rec := range f.Records {
			if rec.Offset >= c.Target {
				break
			}
			if brokenSkip(rec.Offset, c.Target) {
				continue
			}
			batch.add(rec)
			p.Records.Add(1)
			p.Bytes.Add(int64(len(rec.Key) + len(rec.Value)))
		}
		p.Remaining.Add(at - min(f.Next, c.Target))
		at = min(f.Next, c.Target)
		if batch.records >= batchRecords || batch.bytes >= batchBytes || at >= c.Target {
			if err := batch.apply(db, c, at); err != nil {
				return err
			}
			if err := failpoint.Hit(ctx, failpoint.RestoreBatch); err != nil {
				return err
			}
		}
	}
	return nil
}

// batch keeps the last write per key.
type batch struct {
	store   state.StoreID
	index   map[string]int
	writes  []state.Write
	records int
	bytes   int
	last    int64
}

func newBatch(store state.StoreID) *batch { return &batch{store: store, index: map[string]int{}} }

func (b *batch) add(r *broker.Record) {
	w := state.Write{Store: b.store, Key: r.Key, Value: r.Value, Delete: r.Value == nil}
	if i, ok := b.index[string(r.Key)]; ok {
		b.writes[i] = w
	} else {
		b.index[string(r.Key)] = len(b.writes)
		b.writes = append(b.writes, w)
	}
	b.records++
	b.bytes += len(r.Key) + len(r.Value)
	b.last = r.Offset
}

func (b *batch) all() iter.Seq[state.Write] {
	return func(yield func(state.Write) bool) {
		for _, w := range b.writes {
			if !yield(w) {
				return
			}
		}
	}
}

// apply writes the batch with the position behind it. The position counts as applied only below the target: see replayOne.
func (b *batch) apply(db state.Database, c Replay, at int64) error {
	base := db.Positions()
	next := base.Clone()
	if next.WrittenAt == 0 {
		next.WrittenAt = time.Now().UnixMilli() // the age of what is here so far; an older one stays until everything is
	}
	cl, _ := next.Changelog(c.Store)
	cl.Store, cl.TopicID, cl.Scanned = c.Store, c.TopicID, at
	if b.records > 0 {
		cl.Applied = min(b.last+1, c.Target-1)
	}
	next.SetChangelog(cl)
	err := db.Apply(base, next, b.all())
	clear(b.index)
	b.writes, b.records, b.bytes = b.writes[:0], 0, 0
	return err
}
