package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/topics"
	"github.com/onceward/onceward/txn/internal/waits"
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
	// Layout turns the changelog's records into the store's rows.
	Layout state.Layout
	// FromSource turns the records of an input topic into rows, for a store that has no changelog:
	// ChangelogTopic is that topic.
	FromSource *graph.SourceRows
	// Parks says that it is the store of an input's parked records.
	Parks bool
	// InMemory says that its rows are in memory. The database that Open opens must know that.
	InMemory bool
}

// Request is one task to open.
type Request struct {
	Task    graph.TaskID
	Sources []Source // sorted by topic
	Stores  []Store  // sorted by name
	// Lost are the stores that nothing restores (topology.Store.LostOnRestart). They are empty in
	// the database that Open opens.
	Lost []state.Declaration
	// Parking are the stores in which records of its inputs wait, or would if the topology had
	// them.
	Parking []ParkStore
	// Modes are those in which the last commit may have been made; nil is any.
	Modes []topology.Mode
	// Standby tasks are restored after all others.
	Standby bool
	// Room is asked before each fetch for a standby whether its database may grow; nil is yes. It
	// is called from any goroutine, and must not block. The step ends with its error.
	Room func(db state.Database) error
	// Open opens the task's database, Remove deletes it. Both are nil for a task without stores.
	Open   func() (state.Database, error)
	Remove func() error
}

// StartsOf returns where the inputs of a new application begin, for those that do not begin at the
// start of their logs.
func StartsOf(t *topology.Topology) map[string]broker.Start {
	starts := map[string]broker.Start{}
	for _, sub := range t.Subtopologies() {
		for _, src := range sub.Sources {
			switch src.Start.From {
			case graph.Latest:
				starts[src.Topic] = broker.Start{Latest: true}
			case graph.AtTime:
				starts[src.Topic] = broker.Start{Time: src.Start.Time}
			case graph.Earliest:
			}
		}
	}
	return starts
}

// RequestOf describes a task of a subtopology, without its database. starts knows where inputs
// begin that do not begin at the start of their logs.
func RequestOf(id graph.TaskID, sub graph.Subtopology, starts *broker.Starts) Request {
	req := Request{Task: id, Lost: sub.LostOnRestart()}
	for _, src := range sub.Sources {
		source := Source{Topic: src.Topic}
		if starts.Has(src.Topic) {
			source.Start = func(ctx context.Context, partition int32) (int64, error) {
				return starts.Offset(ctx, src.Topic, partition)
			}
		}
		req.Sources = append(req.Sources, source)
		if src.ParkStore != "" {
			req.Parking = append(req.Parking, ParkStore{Name: src.ParkStore, ChangelogTopic: src.ParkChangelog})
		}
	}
	for _, st := range sub.Restored() {
		req.Stores = append(req.Stores, Store{
			Name: st.Name, ChangelogTopic: st.Topic(), Layout: st.Layout, FromSource: st.FromSource, InMemory: st.InMemory,
			Parks: slices.ContainsFunc(req.Parking, func(p ParkStore) bool { return p.Name == st.Name }),
		})
	}
	return req
}

// Result is a task's committed state.
type Result struct {
	Positions state.Positions
	Metadata  string
	// Retry is what the commit says of a record that was tried before.
	Retry task.CommittedRetry
	// Database is open and at Positions; nil for a task without stores.
	Database state.Database
}

// Restorer opens tasks. It is safe for concurrent use. Close it.
type Restorer struct {
	Cluster *broker.Cluster
	Layout  topics.Layout
	Logger  *slog.Logger
	// RoundsTopic holds the commit metadata that are too large for an offset commit.
	RoundsTopic string
	// Waits reports for which open transactions a restore waits; nil reports nothing.
	Waits *waits.Waits
	// Metrics counts the restores.
	Metrics *metrics.Metrics
	// BytesMax bounds the memory of all restores together, as far as it is theirs: fetched answers,
	// and what is collected for the databases. Less than BytesMin is raised to it. A record that is
	// larger alone is read none the less.
	BytesMax int64
	// StandbyBytesPerSecond bounds what the copies of all standbys together read of changelogs, in
	// bytes of answers; zero is no bound.
	StandbyBytesPerSecond int64
	// AcceptLostRows restores stores from changelogs that may have lost rows which the stores can
	// still read; see ErrLostRows.
	AcceptLostRows bool
	// Failpoints are hit by restores; the zero value is none.
	Failpoints failpoint.Set

	fetcher *broker.Fetcher
	// stream opens a changelog partition for reading, by the fetcher.
	stream func(c Changelog, partition int32) stream
	budget *budget
	// pace is that of StandbyBytesPerSecond, nil without a bound.
	pace *pace
	// opens bounds how many databases are being opened.
	opens chan struct{}
	// believed are questions whose answer was waited for long enough, and is believed at once from
	// then on.
	believed *sync.Map
	// askedAgain are the lines of the log about commits that are asked for again, each of which was
	// logged.
	askedAgain *sync.Map
}

// stream is what is needed of a broker.Stream.
type stream interface {
	Fetch(ctx context.Context, offset int64, bytesMax int32) (broker.Answer, error)
	Close()
}

// BytesMin is the least memory that restores work with.
const BytesMin = pagesMin * pageSize

// New returns a restorer.
func New(r Restorer) *Restorer {
	r.fetcher = r.Cluster.NewFetcher()
	r.stream = func(c Changelog, partition int32) stream { return r.fetcher.Open(c.Topic, c.TopicID, partition) }
	// As many changelogs as cores: while their last chunks are sorted and written, the next ones
	// are fetched. More would share the memory, and make smaller chunks: tables that overlap and
	// have to be compacted, which costs more than the wait for a broker.
	r.budget = newBudget(r.BytesMax, max(runtime.GOMAXPROCS(0), seatsMin))
	r.pace = newPace(r.StandbyBytesPerSecond)
	r.opens = make(chan struct{}, opensMax)
	r.believed, r.askedAgain = &sync.Map{}, &sync.Map{}
	return &r
}

// Memory returns what restores hold of BytesMax at the moment, and what that is.
func (r *Restorer) Memory() (bytes, bytesMax int64) { return r.budget.memory() }

// seatsMin lets one changelog be fetched while another one is written on a single core too.
const seatsMin = 2

// opensMax is low because a database that is opened reads and writes files of its own.
const opensMax = 4

// Close returns when nothing of the restorer runs any more. Restores that are under way end with an
// error.
func (r *Restorer) Close() { r.fetcher.Close() }

// opening is one try to open a task.
type opening struct {
	r        *Restorer
	req      Request
	progress *Progress
	log      *slog.Logger
	came     time.Time
	// full is why the database was restored in full, or the first store of it that was; empty if
	// none was.
	full Cause
	db   state.Database
	// writing orders what is written to the database: positions move one step at a time.
	writing sync.Mutex
}

// has reports whether a store may have rows.
func (o *opening) has(store string) bool {
	at, _ := o.db.Positions().Changelog(store)
	return at.Applied > 0
}

// layout returns that of a store.
func (o *opening) layout(store string) state.Layout {
	i := slices.IndexFunc(o.req.Stores, func(s Store) bool { return s.Name == store })
	return o.req.Stores[i].Layout
}

// How often a commit that is older than the state is asked for again, and how long in between: see
// Restore.
const (
	olderReadings = 5
	olderPause    = 500 * time.Millisecond
)

// Restore brings the task to its last commit. A StopError says that the task must not be opened;
// other errors are worth another try. The data that a try has brought into the database stays
// there, however the try ends, and the next try continues behind it.
//
// That the last commit is older than the state, or that records wait by it for which there is no
// place, is believed only when it stays so for some seconds. A group coordinator of Kafka 4.3 whose
// partition's leadership comes back while it loads answers, without an error, from the part of the
// log that it has read so far.
func (r *Restorer) Restore(ctx context.Context, req Request, p *Progress) (result Result, err error) {
	pause := olderPause
	for reading := 1; ; reading++ {
		result, err = r.restore(ctx, req, p)
		stop, stops := errors.AsType[*StopError](err)
		if !stops || !stop.older || reading == olderReadings {
			return result, err
		}
		what := "the last commit is older than the state, and"
		if stop.Parked {
			what = "records wait, or may, for which there is no place, and the last commit"
		}
		level := slog.LevelDebug
		if _, told := r.askedAgain.LoadOrStore(what, true); !told {
			level = slog.LevelWarn // once for all tasks: each says by itself why it stops
		}
		r.Logger.Log(ctx, level, what+" is asked for again: a coordinator that loads can answer so", "task", req.Task.String(),
			"reason", stop.Reason, "again_in", pause)
		if err := backoff.Sleep(ctx, pause); err != nil {
			return Result{}, err
		}
		pause *= 2
	}
}

// checkLast stops a task whose changelogs continue behind the last commit. The writes of a task's
// last round end where its commit says. So the commit found is not the last one, and its inputs
// would be applied twice.
func (o *opening) checkLast(ctx context.Context, found Found) error {
	for _, c := range found.Changelogs {
		target, named := found.Commit.Target(c.Store)
		if !named || c.FromSource != nil {
			continue // it is empty, or goes on as a topic does that others write
		}
		beyond, err := o.r.committedNow(ctx, c, o.req.Task.Partition, target)
		if err != nil {
			return err
		}
		if beyond {
			return found.notLast(c, target)
		}
	}
	return nil
}

// restore is one try.
func (r *Restorer) restore(ctx context.Context, req Request, p *Progress) (result Result, err error) {
	o := &opening{r: r, req: req, progress: p, log: r.Logger.With("task", req.Task.String()), came: p.begin(time.Now())}
	found, metadata, err := r.find(ctx, req)
	if err != nil {
		return Result{}, fmt.Errorf("opening task %s: %w", req.Task, err)
	}
	if err := req.checkMode(found.Commit); err != nil {
		return Result{}, err
	}
	if len(req.declarations()) == 0 {
		plan, err := Judge(found)
		return Result{Positions: plan.Positions, Metadata: metadata, Retry: found.retry()}, err
	}
	defer o.count(&err)()
	plan, err := o.open(ctx, found)
	if err == nil {
		err = o.restore(ctx, found, plan)
	}
	if err != nil {
		return Result{}, o.abandon(err)
	}
	return Result{Positions: plan.Positions, Metadata: metadata, Retry: found.retry(), Database: o.db}, nil
}

// retry is what the last commit says of a record that was tried before.
func (f *Found) retry() task.CommittedRetry {
	if f.Commit == nil {
		return task.CommittedRetry{}
	}
	return f.Commit.Retry
}

// abandon closes the database after an error. A damaged one is removed: damage that only shows in
// the middle of the work would stop every further try at the same place.
func (o *opening) abandon(err error) error {
	if o.db != nil {
		err = errors.Join(err, o.db.Close())
	}
	if damage, ok := errors.AsType[*writeError](err); ok && errors.Is(damage, state.ErrCorrupt) {
		o.log.Warn("the database is damaged and is restored in full by the next try", "cause", Damaged, "error", err)
		err = errors.Join(err, o.req.Remove())
	}
	return err
}

// count notes where a restore begins; what it returns counts what was done when it is over.
func (o *opening) count(err *error) func() {
	began, before := time.Now(), o.progress.Read(time.Now())
	return func() {
		now := o.progress.Read(time.Now())
		if (o.full == Absent || o.full == Volatile) && now.Records == before.Records {
			o.full = "" // there was nothing to restore
		}
		o.r.Metrics.Restored(metrics.Restore{
			Task: o.req.Task, Full: o.full != "", Reason: string(o.full), Took: time.Since(began), Failed: *err != nil,
			Records: now.Records - before.Records, Bytes: now.Bytes - before.Bytes,
		})
	}
}

// open opens the database and decides what is to be done with it, and empties it where that is to
// be done first.
func (o *opening) open(ctx context.Context, found Found) (Plan, error) {
	select {
	case o.r.opens <- struct{}{}:
		defer func() { <-o.r.opens }()
	case <-ctx.Done():
		return Plan{}, ctx.Err()
	}
	if err := o.r.Failpoints.Hit(ctx, failpoint.OpenBefore); err != nil {
		return Plan{}, err
	}
	err := o.openDatabase(found.Changelogs)
	if errors.Is(err, state.ErrCorrupt) {
		o.full = Damaged
		o.log.Warn("the database is damaged and is restored in full", "cause", Damaged, "error", err)
		err = o.replaceDatabase(found.Changelogs)
	}
	if errors.Is(err, state.ErrFormat) {
		return Plan{}, newer(o.req.Task, "its database", err)
	}
	if err != nil {
		return Plan{}, fmt.Errorf("opening the database of task %s: %w", o.req.Task, err)
	}
	found.Database = o.db.Positions()
	o.brokenInMemory(&found)
	if o.full == "" && len(found.Database.Changelogs) == 0 {
		o.full = Absent
	}
	plan, err := Judge(found)
	if err != nil {
		return Plan{}, err
	}
	for _, lost := range o.req.Lost { // with the stream time of an empty store
		plan.Positions.SetChangelog(state.Changelog{Store: lost.Name})
	}
	if plan.Wipe != "" {
		o.full = plan.Wipe
		o.log.Warn("the database is restored in full", "cause", plan.Wipe, "reason", plan.WipeReason)
		if err := o.replaceDatabase(found.Changelogs); err != nil {
			return Plan{}, err
		}
	}
	return plan, nil
}

// restore brings the database to the plan's positions, and sees that no commit follows them.
func (o *opening) restore(ctx context.Context, found Found, plan Plan) error {
	for _, c := range plan.Replays {
		if c.Full != Volatile {
			o.full = cmp.Or(o.full, c.Full)
		}
	}
	if slices.ContainsFunc(plan.Replays, func(c Replay) bool { return c.Full == Volatile }) {
		o.full = cmp.Or(o.full, Volatile)
	}
	started, before := time.Now(), o.progress.Read(time.Now())
	if err := o.bring(ctx, found, plan); err != nil {
		return fmt.Errorf("restoring task %s: %w", o.req.Task, err)
	}
	if err := o.checkLast(ctx, found); err != nil {
		return fmt.Errorf("restoring task %s: %w", o.req.Task, err)
	}
	if err := o.arrive(plan); err != nil {
		return fmt.Errorf("restoring task %s: %w", o.req.Task, err)
	}
	if err := o.r.Failpoints.Hit(ctx, failpoint.RestoreAfter); err != nil {
		return err
	}
	if now := o.progress.Read(time.Now()); now.Records > before.Records {
		o.log.Info("restored", "records", now.Records-before.Records, "bytes", now.Bytes-before.Bytes,
			"took", time.Since(started).Round(time.Millisecond))
	}
	return nil
}

// bring reads all rows of the plan into the database.
func (o *opening) bring(ctx context.Context, found Found, plan Plan) error {
	if err := o.checkLost(found, plan.Replays); err != nil {
		return err
	}
	if err := o.empty(plan.Replays); err != nil {
		return err
	}
	return o.replay(ctx, plan.Replays)
}

// arrive moves the database, which has all rows of the plan, to the plan's positions.
func (o *opening) arrive(plan Plan) error {
	if o.db.Positions().Same(plan.Positions) {
		return nil
	}
	return o.write(plan.Positions)
}

// write moves the database to positions without writing rows.
func (o *opening) write(next state.Positions) error {
	if err := o.db.Apply(o.db.Positions(), next, func(func(state.Write) bool) {}); err != nil {
		return &writeError{err}
	}
	return nil
}
