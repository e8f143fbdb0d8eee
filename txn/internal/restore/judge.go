package restore

import (
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/task"
)

// Input is what was found of one input partition of the task.
type Input struct {
	Topic     string
	Partition int32
	// Committed is the stable committed offset, -1 when there is none.
	Committed int64
	// Start is where a new application starts.
	Start int64
}

// Changelog is what was found of one changelog partition of the task.
type Changelog struct {
	Store    string
	Topic    string
	TopicID  [16]byte
	LogStart int64
	// HighWatermark is the end of the log, committed or not.
	HighWatermark int64
	// Empty says that no committed record is in the log. The high watermark does not tell: a first
	// round that was killed leaves aborted records.
	Empty bool
	// DeleteRetention is how long the topic keeps tombstones.
	DeleteRetention time.Duration
	// Deletes says that the beginning of the topic can be deleted, as of the changelogs of stores
	// with a retention. Where Retention is 0, only the owner of the task deletes, and nothing but
	// what has expired by the stream time of the store; see also expired.
	Deletes bool
	// Retention is how long the brokers keep records of such a topic, by their clock; 0 is for
	// ever.
	Retention time.Duration
	// Layout is that of the store.
	Layout state.Layout
	// Parks says that the store is that of an input's parked records.
	Parks bool
	// InMemory says that the rows of the store are in memory: no database has any when it is
	// opened. The database of a copy that has followed has them, with a position.
	InMemory bool

	// FromSource is set for a store without a changelog. Topic is then the input topic that the
	// store is restored from. The fields below are for such a store; see source.go.
	FromSource *graph.SourceRows
	// Taken is the offset up to which the task has taken the input.
	Taken int64
	// Compacted says that the topic is compacted, and CompactionLag how old records are at least
	// before they are.
	Compacted     bool
	CompactionLag time.Duration
}

// Found is everything that Judge looks at.
type Found struct {
	Task   graph.TaskID
	Inputs []Input
	// Commit is the metadata committed with the first input partition; nil when there is none or it
	// is not ours.
	Commit     *task.CommitMetadata
	Changelogs []Changelog
	// Kept says that the group has no offset and a clean stop has kept the last ones. It is looked
	// for where no changelog could tell that there was state: the task has a table that is restored
	// from its source.
	Kept bool
	// Rebuilding says that a rebuild from input has begun to empty the changelogs, and has not
	// ended: see the constant.
	Rebuilding bool
	// Database are the positions in the task's database; zero for a new one.
	Database state.Positions
	// HasState says that the task has stores that are restored.
	HasState bool
	Now      time.Time
}

// Replay is what has to be read of one changelog.
type Replay struct {
	Changelog
	From, Target int64
	// StreamTime is the store's own at the target, 0 if the commit does not say. For a store that
	// is restored from its source it is the digest of the records up to there; see task.Table.
	StreamTime int64
	// Digest is that of the records of the source that are in the store already.
	Digest int64
	// Full is why the store is to be emptied first, empty if it is not, and Reason the same in
	// words.
	Full   Cause
	Reason string
}

// Plan says how to get from what was found to the task's committed positions.
type Plan struct {
	// Wipe is why the whole database is to be emptied first, empty if it is not, and WipeReason the
	// same in words.
	Wipe       Cause
	WipeReason string
	Replays    []Replay
	// Positions are those of the last commit: what the database will be at.
	Positions state.Positions
}

// StopError says why a task cannot be opened, and what an operator can do.
type StopError struct {
	Task     graph.TaskID
	Reason   string
	Recovery string
	// Cause is:
	//  - an error that wraps state.ErrFormat, if a newer build wrote to the task,
	//  - an error that wraps state.ErrCorrupt, if a changelog holds what the store cannot have,
	//  - ErrLostRows, if a changelog may have lost rows,
	//  - ErrNotExact, if the topic of a table cannot restore the table,
	//  - ErrParked, if parked records would be left behind, or may be,
	//  - nil, if state and offsets do not name each other.
	Cause error
	// Parked says that records wait, or may, which a state is not kept with: a way that keeps it
	// has to give them up.
	Parked bool
	// older says that the commit is one from before the state, or can be one from before what
	// waited was processed. A coordinator can give such an answer for a while: see Restore.
	older bool
}

// Unwrap returns the cause.
func (e *StopError) Unwrap() error { return e.Cause }

func (e *StopError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("task %s is not opened: %s: %v. %s", e.Task, e.Reason, e.Cause, e.Recovery)
	}
	return fmt.Sprintf("task %s is not opened, because state and offsets do not name each other: %s. %s", e.Task, e.Reason, e.Recovery)
}

// tombstoneMargin of the tombstones' retention is how old a gap may be before deletions may be
// missing from the log.
const tombstoneMargin = 0.8

// Judge decides. It reads nothing but its argument.
func Judge(f Found) (Plan, error) {
	if err := f.checkParked(); err != nil {
		return Plan{}, err
	}
	if !f.HasState {
		return Plan{Positions: startPositions(f)}, nil
	}
	if err := f.checkSources(); err != nil {
		return Plan{}, err
	}
	if !f.anyCommitted() {
		return judgeNew(f)
	}
	if f.Commit == nil {
		if f.emptyState() {
			return f.fresh(), nil
		}
		if f.Rebuilding {
			return Plan{}, f.stop("a rebuild from input was interrupted, and the state is neither the old one nor empty", fromInputAgain)
		}
		return Plan{}, f.stop("the committed offsets carry no metadata of this application, but there is state: they were set from "+
			"outside or by another program", setAndAccept, adopt, fromInput)
	}
	if err := f.checkInputs(); err != nil {
		return Plan{}, err
	}
	return judgeCommit(f, f.Commit)
}

func (f Found) anyCommitted() bool {
	return slices.ContainsFunc(f.Inputs, func(in Input) bool { return in.Committed >= 0 })
}

func (f Found) stop(reason string, ways ...string) error {
	return &StopError{Task: f.Task, Reason: reason, Recovery: f.recoveryActions(ways...)}
}

// older stops a task because the last commit is older than the state.
func (f Found) older(reason string, ways ...string) *StopError {
	return &StopError{Task: f.Task, Reason: reason, Recovery: f.recoveryActions(ways...), older: true}
}

// notLast stops a task because a changelog goes on behind what the last commit names of it.
func (f Found) notLast(c Changelog, target int64) *StopError {
	return f.older(fmt.Sprintf("changelog %s[%d] holds committed records from %d on, which the last commit does not name", c.Topic,
		f.Task.Partition, target), setAndAccept, adopt, fromInput)
}

func (f Found) emptyState() bool {
	if !f.Database.Round.IsZero() || !f.Database.State.IsZero() {
		return false
	}
	for _, c := range f.Changelogs {
		if !c.Empty && c.FromSource == nil {
			return false
		}
	}
	return true
}

// emptyDatabase reports whether nothing was ever written to the database, by a round or by a
// restore.
func (f Found) emptyDatabase() bool {
	return f.Database.Round.IsZero() && !slices.ContainsFunc(f.Database.Changelogs, func(c state.Changelog) bool {
		return c.Applied > 0 || c.Scanned > 0
	})
}

// hasAny reports whether the database has anything of the stores that the task has now.
func (f Found) hasAny() bool {
	return slices.ContainsFunc(f.Changelogs, func(c Changelog) bool { return f.have(c.Store).Applied > 0 })
}

// startPositions are those of a task without usable commit metadata: the committed offset of each
// input that has one, and the start offset of the others.
func startPositions(f Found) state.Positions {
	p := state.Positions{WrittenAt: f.Now.UnixMilli()}
	for _, in := range f.Inputs {
		at := in.Committed
		if at < 0 {
			at = in.Start
		}
		p.Inputs = append(p.Inputs, state.Input{Topic: in.Topic, Partition: in.Partition, Offset: at, StreamTime: state.NoTime})
	}
	for _, c := range f.Changelogs {
		p.Changelogs = append(p.Changelogs, state.Changelog{Store: c.Store, TopicID: c.TopicID, StreamTime: f.firstDigest(c)})
	}
	if f.Commit != nil {
		p.Round, p.State = f.Commit.Round, f.Commit.State
		for i := range p.Inputs {
			if named, ok := f.Commit.Input(p.Inputs[i].Topic); ok {
				p.Inputs[i].StreamTime = named.StreamTime
			}
		}
	}
	return p
}

// judgeNew is a task that has never committed, as far as the group knows.
func judgeNew(f Found) (Plan, error) {
	if !f.Database.Round.IsZero() {
		return Plan{}, f.older("the state directory holds a database, and the group has no offset: offsets expire when a group is "+
			"empty for long, or they were deleted", fromRounds, fromInput)
	}
	if f.Kept {
		return Plan{}, f.older("the group has no offset, and the last clean stop has kept those of the task: offsets expire when a group is "+
			"empty for long, or they were deleted", fromRounds, fromInput)
	}
	for _, c := range f.Changelogs {
		if !c.Empty && c.FromSource == nil {
			return Plan{}, f.older(fmt.Sprintf("changelog %s[%d] holds records, and the group has no offset", c.Topic, f.Task.Partition),
				fromRounds, fromInput)
		}
	}
	return f.fresh(), nil
}

// Cause is why a database, or a store of it, is restored in full, as a word of a closed set.
type Cause string

// The causes.
const (
	// Absent: there was no database, and there is something to restore.
	Absent Cause = "absent"
	// Damaged: the database cannot be opened.
	Damaged Cause = "damaged"
	// Volatile: its rows are in memory, so that no database has them when it is opened.
	Volatile Cause = "in_memory"
	// Relaid: a store has another layout than its rows.
	Relaid Cause = "layout"
	// Interrupted: it holds a part of a first restore.
	Interrupted Cause = "interrupted"
	// Recreated: it was written from a changelog topic that is gone.
	Recreated Cause = "changelog_recreated"
	// Truncated: the changelog starts after the position of the database.
	Truncated Cause = "changelog_truncated"
	// Expired: the changelog may have lost deletions that the database has not seen.
	Expired Cause = "tombstones_expired"
	// Reread: its source was read again from the start since.
	Reread Cause = "source_reread"
	// Incomplete: its source does not hold all records any more that came after the database was
	// written.
	Incomplete Cause = "source_incomplete"
)

// fresh is the plan of a task without state. A database that a first restore was writing when it
// was killed names no round, and is not empty: it is emptied.
func (f Found) fresh() Plan {
	plan := Plan{Positions: startPositions(f)}
	if !f.emptyDatabase() {
		plan.Wipe, plan.WipeReason = Interrupted, "it holds a part of a restore, and there is nothing any more that it was restored from"
	}
	return plan
}

// checkInputs compares the committed offsets with the list in the commit metadata. They differ when
// an operator or another program moved the offsets.
func (f Found) checkInputs() error {
	for _, in := range f.Inputs {
		named, ok := f.Commit.Input(in.Topic)
		// An input whose position never moved has no commit of its own.
		if ok && in.Committed >= 0 && in.Committed != named.Offset {
			return f.stop(fmt.Sprintf("the committed offset of %s[%d] is %d, and the state was written for %d", in.Topic, in.Partition,
				in.Committed, named.Offset), moved(in.Committed, named.Offset)...)
		}
	}
	return nil
}

func judgeCommit(f Found, b *task.CommitMetadata) (Plan, error) {
	plan := Plan{Positions: state.Positions{Round: b.Round, State: b.State, WrittenAt: f.Now.UnixMilli()}}
	for _, in := range f.Inputs {
		at, streamTime := in.Committed, state.NoTime
		if named, ok := b.Input(in.Topic); ok {
			at, streamTime = named.Offset, named.StreamTime
		}
		if at < 0 {
			at = in.Start
		}
		plan.Positions.Inputs = append(plan.Positions.Inputs,
			state.Input{Topic: in.Topic, Partition: in.Partition, Offset: at, StreamTime: streamTime})
	}
	var named []state.Changelog
	missing := false
	for _, c := range f.Changelogs {
		committed, known := b.Changelog(c.Store)
		if !known {
			committed.StreamTime = f.firstDigest(c)
		}
		target := committed.Applied
		if !known && !c.Empty && c.FromSource == nil {
			ways := []string{"delete that topic, or give the store another name", adopt}
			if c.Parks { // its name is that of the topic, and what is in it was processed since, or given up
				ways = []string{"delete that topic, once the last commit of no task names it"}
			}
			return Plan{}, f.stop(fmt.Sprintf("store %s is new, and its changelog %s[%d] already holds records", c.Store, c.Topic,
				f.Task.Partition), ways...)
		}
		if c.FromSource != nil && known && (target != c.Taken || !task.IsDigest(committed.StreamTime)) {
			return Plan{}, f.stop(fmt.Sprintf("store %s is restored from its source %s[%d], and had a changelog when the last commit was made",
				c.Store, c.Topic, f.Task.Partition), fromInput, "give the store another name")
		}
		if c.FromSource == nil && task.IsDigest(committed.StreamTime) { // the position is one in that topic
			return Plan{}, f.stop(fmt.Sprintf("store %s has the changelog %s[%d], and was restored from its source when the last commit was made",
				c.Store, c.Topic, f.Task.Partition), "run it with RestoreFromTopic again", fromInput)
		}
		if target > c.HighWatermark && c.FromSource != nil { // where it ends can be another place with each look
			return Plan{}, f.stop(fmt.Sprintf("the input %s[%d] ends before %d, which the last commit names: the cluster lost records",
				c.Topic, f.Task.Partition, target), fromInput)
		}
		if target > c.HighWatermark {
			keep := adopt
			if c.Parks {
				keep = withoutParked
			}
			return Plan{}, &StopError{Task: f.Task, Parked: c.Parks, Recovery: f.recoveryActions(fromInput, keep), Reason: fmt.Sprintf(
				"changelog %s[%d] ends at %d, and the last commit names %d: the cluster lost records", c.Topic, f.Task.Partition,
				c.HighWatermark, target)}
		}
		if known {
			named = append(named, state.Changelog{Store: c.Store, TopicID: c.TopicID})
		}
		plan.Positions.Changelogs = append(plan.Positions.Changelogs,
			state.Changelog{Store: c.Store, TopicID: c.TopicID, Applied: target, Scanned: target,
				StreamTime: committed.StreamTime})
		judge := f.judgeChangelog
		if have := f.have(c.Store); c.InMemory && have.Applied == 0 {
			judge = f.judgeInMemory
		}
		if err := judge(c, committed, &plan, &missing); err != nil {
			return Plan{}, err
		}
	}
	if len(named) == len(b.Changelogs) && task.TopicsHash(named) != b.Topics {
		return Plan{}, f.stop("a changelog topic is not the one that the last commit names: it was deleted and created again", fromInput, adopt)
	}
	// If a store of the commit is gone from the topology, the hash says nothing. Which of two
	// topics the commit means is then unknown.
	if i := slices.IndexFunc(plan.Replays, func(r Replay) bool { return r.Full == Recreated }); i >= 0 && len(named) != len(b.Changelogs) {
		return Plan{}, f.stop(fmt.Sprintf("the database was written from another topic than %s is now, and the last commit has stores that the "+
			"topology does not have, so the topic that it means is unknown", plan.Replays[i].Topic), fromInput, adopt)
	}
	// A database that has nothing of these stores is at the committed positions if the commit has
	// nothing of them either: whichever round wrote it last, it was not one of theirs.
	if !missing && f.hasAny() && f.Database.State != b.State {
		return Plan{}, f.stop("the database is at the committed positions, but it was written by another round than the commit names",
			fromChangelog, fromInput)
	}
	return plan, nil
}

// judgeChangelog adds what one changelog needs to the plan. The reason for which one store is
// restored in full does not concern its neighbours.
func (f Found) judgeChangelog(c Changelog, committed task.CommittedChangelog, plan *Plan, missing *bool) error {
	have, target := f.have(c.Store), committed.Applied
	replay := Replay{Changelog: c, From: max(have.Scanned, c.LogStart), Target: target, StreamTime: committed.StreamTime}
	if have.TopicID != c.TopicID {
		replay.From = c.LogStart
	}
	full := func(cause Cause, why string) {
		replay.Full, replay.Reason, replay.From, replay.Digest = cause, why, c.LogStart, task.EmptyDigest(committed.StreamTime)
	}
	reread := false
	if c.FromSource != nil {
		replay.Digest = task.EmptyDigest(committed.StreamTime)
		if have.TopicID == c.TopicID && have.Applied > 0 {
			reread = task.EmptyDigest(have.StreamTime) != replay.Digest
			replay.Digest = have.StreamTime
		}
	}
	switch {
	case reread:
		full(Reread, "it was made before its input was read again from the start")
	case have.TopicID != c.TopicID && have.Applied > 0:
		full(Recreated, "the database was written from a changelog topic that does not exist any more")
	case have.Applied > target:
		return f.older(fmt.Sprintf("the database contains changelog %s[%d] up to %d, and the last commit names %d", c.Topic,
			f.Task.Partition, have.Applied, target), setAndAccept, adopt, fromChangelog, fromInput)
	case have.Applied == target:
		// Nothing is missing, whatever the age.
		replay.From = target
		plan.Replays = append(plan.Replays, replay)
		return nil
	case have.Applied > 0 && have.Scanned < c.LogStart && !c.expired(f.Now, committed.StreamTime):
		full(Truncated, fmt.Sprintf("it ends at %d and the changelog starts at %d", have.Scanned, c.LogStart))
	case have.Applied > 0 && c.FromSource == nil && f.tooOld(c):
		full(Expired, "it is so old that deletions may be missing from the changelog")
	}
	*missing = true
	plan.Replays = append(plan.Replays, replay)
	return nil
}

// judgeInMemory adds to the plan that a store in memory without rows is restored in full. Nothing
// else is missing because of that: the stores on the disk are judged as if it were not there.
//
// The database has a note of how far the store was when the others were written. The last round of
// the commit may have written to the store in memory alone. There can have been such a round if the
// note is below the target: then the state ids need not be the same.
func (f Found) judgeInMemory(c Changelog, committed task.CommittedChangelog, plan *Plan, missing *bool) error {
	note, _ := f.Database.InMemory(c.Store)
	target := committed.Applied
	replay := Replay{Changelog: c, From: c.LogStart, Target: target, StreamTime: committed.StreamTime, Full: Volatile,
		Reason: "its rows are in memory"}
	switch {
	case note.Applied > 0 && note.TopicID != c.TopicID:
		replay.Full, replay.Reason = Recreated, "the database was written with a changelog topic that does not exist any more"
		*missing = true
	case note.Applied > target:
		return f.older(fmt.Sprintf("the database was written when changelog %s[%d] was at %d, and the last commit names %d", c.Topic,
			f.Task.Partition, note.Applied, target), setAndAccept, adopt, fromChangelog, fromInput)
	case note.Applied < target:
		*missing = true
	}
	if target == 0 && replay.Full == Volatile {
		replay.Full, replay.Reason = "", ""
	}
	plan.Replays = append(plan.Replays, replay)
	return nil
}

// expired reports whether everything that was deleted from the changelog has expired in the store
// at a stream time. Then a database continues where the log begins: its older rows, and the records
// deleted from the log meanwhile, are not read any more.
// The owner of a task deletes expired records only. Brokers delete by their clock. That clock can
// be ahead of the stream time, because input is old or there was none for a while. Then rows that
// can still be read may have lost the records that have changed or deleted them since.
func (c Changelog) expired(now time.Time, streamTime int64) bool {
	return c.Deletes && (c.Retention == 0 || !c.Layout.Live(now.Add(-c.Retention).UnixMilli(), streamTime))
}

// have returns what the database has of a store.
func (f Found) have(store string) state.Changelog {
	have, _ := f.Database.Changelog(store)
	return have
}

// tooOld reports whether tombstones that the database has not seen may be gone from the log.
func (f Found) tooOld(c Changelog) bool {
	age := f.Now.Sub(time.UnixMilli(f.Database.WrittenAt))
	return c.DeleteRetention > 0 && f.Database.WrittenAt > 0 && age > time.Duration(tombstoneMargin*float64(c.DeleteRetention))
}
