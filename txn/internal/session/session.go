package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/ends"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/opening"
	"github.com/onceward/onceward/txn/internal/purge"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/standby"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/topics"
	"github.com/onceward/onceward/txn/internal/worker"
)

// Session is one membership of the group with everything that depends on it. It ends with the
// membership: tasks are never carried from one to the next.
type Session struct {
	cfg       Config
	subs      map[string]graph.Subtopology
	ownership *assign.Ownership
	restorer  *restore.Restorer
	workers   []*worker.Worker
	tasks     *dispatch.Dispatcher
	ends      *ends.Watch

	// ctx ends when the session is abandoned; waits and opens of tasks end with it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// poll ends before ctx: nothing more is fetched, and what was fetched can still be committed.
	poll    context.Context
	endPoll context.CancelCauseFunc
	opener  *opening.Opener
	purger  *purge.Purger
	copies  *standby.Keeper
	// left is what the session leaves for the next one. It belongs to the goroutine of Run.
	left Left
	// told is which tasks were last said to be running.
	told struct {
		sync.Mutex
		tasks string
	}
	// promised says that a move to this process is pending in the group's plan: another member
	// still has to give the task up.
	promised atomic.Bool
	// planned wakes the goroutine that forces rebalances: the group's plan has changed, or the
	// copies that are warm.
	planned chan struct{}
	// closers wait for databases of tasks that were given up.
	closers sync.WaitGroup
	// full has a token when a task that worked has stopped because its disk is full.
	full chan struct{}

	mu struct {
		sync.Mutex
		group *broker.Group // nil until joined
	}
}

const (
	// rebalanceTimeout is how long the group waits for a member in a rebalance, and the client for
	// a lost answer of one. A revoke takes as long as a round at most.
	rebalanceTimeout = 30 * time.Second
	// RevokeWait is the most that a revoke waits for the round in flight: the group waits for us
	// meanwhile. A task that is given up after it is safe, because nothing uncommitted is in its
	// store.
	RevokeWait   = rebalanceTimeout / 2
	stopWait     = 30 * time.Second
	fetchWaitMax = 250 * time.Millisecond
	pollRecords  = 8192
)

// errGroupSession says that the membership is over and may be begun again.
var errGroupSession = errors.New("the group session failed")

// Run joins, works until ctx ends or something fails, and takes everything down. It returns what it
// leaves for the next session. Run is called once.
func (s *Session) Run(ctx context.Context) (Left, error) {
	var workers sync.WaitGroup
	failures := make([]error, len(s.workers))
	for i, w := range s.workers {
		workers.Go(func() {
			if failures[i] = w.Run(s.ctx); failures[i] != nil {
				s.cancel(failures[i])
			}
		})
	}
	workers.Go(s.watchMember)
	workers.Go(func() { s.purger.Run(s.ctx) })
	workers.Go(func() { s.ends.Run(s.ctx) })
	workers.Go(func() { s.copies.Run(s.ctx) })
	workers.Go(s.watchTopics)
	workers.Go(s.forceRebalances)
	workers.Go(s.watchSpace)
	workers.Go(func() { s.cfg.HangWatch.Run(s.ctx, s.cfg.Waits, s.cancel) })
	workers.Go(func() { s.cfg.HangWatch.Repair(s.ctx) })
	workers.Go(func() { s.cfg.HangWatch.Tidy(s.ctx) })
	err := s.work(ctx)
	if err == nil {
		err = s.stopped()
	}
	if ctx.Err() == nil && Restartable(err) { // otherwise no other membership follows
		s.cfg.Reconnecting(err)
		err = s.unlessFenced(err)
	}
	if ctx.Err() != nil || !Restartable(err) {
		s.cfg.Stopping()
	}
	ends := ctx.Err() != nil || errors.Is(err, ErrAllStopped) || errors.Is(err, ErrStopped)
	orderly := ends || errors.Is(err, errResumed) || errors.Is(err, errRebuilt) || errors.Is(err, errNothingLost) ||
		errors.Is(err, errMatched) || errors.Is(err, errSpace)
	if orderly && !ends && s.client() != nil {
		s.left.Member, _ = s.member()
	}
	stopErr := s.stop(orderly, ends && !s.cfg.Remain)
	s.left.Nothing = ends && stopErr == nil
	if ends && s.left.Member != "" { // ended before the join
		var leaveErr error
		s.left, leaveErr = Leave(ctx, s.cfg, s.left)
		stopErr = errors.Join(stopErr, leaveErr)
	}
	s.cancel(errSessionOver)
	s.opener.Wait()
	s.restorer.Close()
	workers.Wait()
	s.closers.Wait()
	// A worker's error ends the work too, and is told once.
	all := []error{err, stopErr}
	for _, failure := range failures {
		if failure != nil && !errors.Is(err, failure) && !errors.Is(stopErr, failure) {
			all = append(all, failure)
		}
	}
	return s.left, errors.Join(all...)
}

// errSessionOver ends what is left of a session.
var errSessionOver = errors.New("the session is over")

// MemberWatch is how often the member id is compared while nothing is committed.
const MemberWatch = time.Second

// joinWait is how long a join takes before the log says what it waits for.
const joinWait = 5 * time.Second

// watchMember ends the session when the client has rejoined the group as another member, which it
// can do without a callback: another process may have owned the tasks in between. Commits compare
// the id themselves; this is for instances that have nothing to commit.
func (s *Session) watchMember() {
	tick := time.NewTicker(s.cfg.MemberWatch)
	defer tick.Stop()
	first, began, told := "", time.Now(), false
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if !told && !s.Joined() && time.Since(began) >= joinWait {
			told = true
			s.cfg.Logger.Warn("waiting for the group: its other members have to join again, and one that died holds it up until its session timeout",
				"session_timeout", s.cfg.SessionTimeout)
		}
		id, _ := s.member()
		if id == "" {
			continue
		}
		s.cfg.Joined(id)
		first = cmp.Or(first, id)
		if id != first || !s.tasks.OpenedAs(id) { // it may have changed before the first look
			s.cancel(assign.ErrMemberChanged)
			return
		}
	}
}

// New returns a session with the initialised producers of its workers, a pair for each. The session
// outlives ctx for as long as it takes to commit what is open.
func New(ctx context.Context, cfg Config, producers [][2]*broker.Producer) *Session {
	cfg.Metrics.Membership()
	s := &Session{
		cfg: cfg, subs: map[string]graph.Subtopology{}, left: Left{Member: cfg.Left.Member},
		planned: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.poll, s.endPoll = context.WithCancelCause(s.ctx)
	for _, sub := range cfg.Topology.Subtopologies() {
		s.subs[sub.Name] = sub
	}
	s.tasks = dispatch.New(dispatch.Config{
		Subtopologies: s.subs, QueueBytesMax: cfg.QueueBytesMax, Metrics: cfg.Metrics,
		Pause:  func(topic string, partition int32) { s.client().Pause(topic, partition) },
		Resume: func(topic string, partition int32) { s.client().Resume(topic, partition) },
	})
	s.ownership = assign.New(cfg.Self.Subtopologies())
	s.restorer = restore.New(restore.Restorer{
		Cluster: cfg.Cluster, Layout: cfg.Layout, Logger: cfg.Logger, Waits: cfg.Waits,
		RoundsTopic: topics.RoundsTopic(cfg.Topology.Application()), Metrics: cfg.Metrics,
		BytesMax: cfg.RestoreBytesMax, StandbyBytesPerSecond: cfg.StandbyBytesPerSecond, AcceptLostRows: cfg.AcceptLostRows, Failpoints: cfg.Failpoints,
	})
	coordinator := broker.NewCoordinator(cfg.Cluster)
	for i := range cfg.Workers {
		s.workers = append(s.workers, worker.New(worker.Config{
			ID: i, Cluster: cfg.Cluster, Coordinator: coordinator, Ownership: s.ownership, Member: s.member, Resume: s.tasks.Resume, Waits: cfg.Waits, Settle: cfg.HangWatch.Settle,
			Instance: cfg.Directory.Instance(), Incarnation: cfg.Incarnation, Fingerprint: cfg.Fingerprint,
			RoundsTopic: topics.RoundsTopic(cfg.Topology.Application()),
			MetadataMax: cfg.MetadataMax, Deadlines: worker.DeadlinesFor(cfg.TransactionTimeout), Budget: cfg.Budget,
			Cadence: worker.Cadence{
				IntervalMin: commitIntervalMin, IntervalMax: cfg.CommitIntervalMax, BytesMax: cfg.RoundBytesMax,
				HeldBytesMax: s.tasks.Journal, EmptyMax: cfg.EmptyMax,
			},
			QueueBytesLow: s.tasks.Low, Stopped: s.stoppedByWorker, Retrying: s.tasks.Retrying, Logger: cfg.Logger,
			Metrics: cfg.Metrics.Worker(i), Failpoints: cfg.Failpoints,
		}, producers[i]))
	}
	s.ends = ends.New(ends.Config{Cluster: cfg.Cluster, Topics: s.inputs(), Tasks: s.tasks, Waits: cfg.Waits, Logger: cfg.Logger})
	s.purger = purge.New(purge.Config{
		Cluster: cfg.Cluster, Subtopologies: s.subs, Ownership: s.ownership, Tasks: s.tasks, Workers: s.workers, Interval: cfg.PurgeInterval,
		Logger: cfg.Logger, Failpoints: cfg.Failpoints,
	})
	s.opener = opening.New(s.ctx, opening.Config{
		Topology: cfg.Topology, Subtopologies: s.subs, Mode: cfg.Mode, Modes: cfg.Modes,
		OrderWaitMax: cfg.OrderWaitMax, MaxFutureTimestamp: cfg.MaxFutureTimestamp, Databases: cfg.Databases, GlobalTable: cfg.Globals.Rows,
		Cluster: cfg.Cluster, Starts: cfg.Starts, Directory: cfg.Directory, Shared: cfg.Shared, Layout: cfg.Layout,
		Rebuilds: cfg.Rebuilds, Restorer: s.restorer, Ownership: s.ownership, Tasks: s.tasks, Workers: s.workers,
		Member: s.member, TakeCopy: func(id graph.TaskID) state.Database { return s.copies.Take(id) },
		Begin: func(ctx context.Context, topic string, partition int32, offset int64) error {
			return s.client().Begin(ctx, topic, partition, offset)
		},
		Stopped: s.taskStopped, Suspended: s.suspended, Opened: s.tellRunning, Abandon: s.cancel,
		Logger: cfg.Logger, Failpoints: cfg.Failpoints,
	})
	s.copies = standby.New(standby.Config{
		Commits: cfg.Cluster, Restorer: s.restorer, Request: s.opener.CopyRequest, Changed: s.replan, Logger: cfg.Logger,
		DiskMax: cfg.StandbyDiskMax,
		Used: func(id graph.TaskID) bool {
			_, owned := s.ownership.Epoch(id)
			return owned || s.opener.Opening(id)
		},
	})
	return s
}

// commitIntervalMin is the least time between two commits of an idle worker.
const commitIntervalMin = 5 * time.Millisecond

// Totals are what the workers of a session have counted.
type Totals struct {
	Records, Punctuations, Outputs, DeadLetters, Commits, Aborts, Retries int64
}

// Totals returns what the session has counted.
func (s *Session) Totals() (t Totals) {
	for _, w := range s.workers {
		st := w.Stats()
		t.Records += st.Records.Load()
		t.Punctuations += st.Punctuations.Load()
		t.Outputs += st.Outputs.Load()
		t.DeadLetters += st.DeadLetters.Load()
		t.Commits += st.Commits.Load()
		t.Aborts += st.Aborts.Load()
		t.Retries += st.Retries.Load()
	}
	return t
}

// client is the group client. It exists from the first callback on.
func (s *Session) client() *broker.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.group
}

// member reads the membership without waiting.
func (s *Session) member() (string, int32) {
	g := s.client()
	if g == nil {
		return "", -1
	}
	return g.Member()
}

// inputs are the topics that the tasks read.
func (s *Session) inputs() (topics []string) {
	for _, sub := range s.subs {
		for _, src := range sub.Sources {
			topics = append(topics, src.Topic)
		}
	}
	return topics
}

// work joins the group and dispatches records until ctx ends or the session fails.
func (s *Session) work(ctx context.Context) error {
	gc := broker.GroupConfig{
		Group: s.cfg.Topology.Application(), Instance: s.cfg.Directory.Instance(), Cluster: s.cfg.Cluster, Starts: s.cfg.Starts,
		Topics: s.inputs(), SessionTimeout: s.cfg.SessionTimeout, RebalanceTimeout: rebalanceTimeout,
		FetchWaitMax: fetchWaitMax, FetchBytesMax: dispatch.FetchBytes, FetchAllBytesMax: dispatch.FetchAllBytes,
	}
	if err := s.cfg.Failpoints.Hit(ctx, failpoint.JoinBefore); err != nil {
		return fmt.Errorf("%w: %w", errGroupSession, err)
	}
	s.left.Member = "" // the client is that member from here on
	// Callbacks can come before Join returns; they need the group only from another goroutine.
	s.mu.Lock()
	g, err := broker.Join(s.cfg.Broker, gc, (*callbacks)(s))
	s.mu.group = g
	s.mu.Unlock()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.endPoll(nil) })
	defer stop()
	for {
		failed := g.Poll(s.poll, pollRecords, s.tasks.Dispatch)
		g.Release()
		s.tasks.Loop().Waits()
		switch {
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		case ctx.Err() != nil:
			return nil
		case s.poll.Err() != nil:
			return context.Cause(s.poll)
		}
		for _, err := range failed {
			if err := s.fetchFailed(err); err != nil {
				return err
			}
		}
	}
}

// fetchFailed judges an error that the client could not retry by itself. An error of a partition
// stops its task, and is no error of the session.
func (s *Session) fetchFailed(failed *broker.FetchError) error {
	if failed.Topic == "" {
		if broker.Permanent(failed) {
			return failed // such as a permission on the group, or an identity that another process uses
		}
		return fmt.Errorf("%w: %w", errGroupSession, failed)
	}
	if suspected, ok := errors.AsType[*broker.ShortenedError](failed); ok {
		return s.logShortened(failed, suspected)
	}
	var why error = failed
	if errors.Is(failed, kerr.OffsetOutOfRange) {
		start, end, err := s.cfg.Cluster.LogBounds(s.ctx, failed.Topic, failed.Partition)
		if err != nil {
			return fmt.Errorf("%w: %w", errGroupSession, errors.Join(failed, err))
		}
		why = fmt.Errorf("%w: %w: the log holds offsets %d to %d; records were deleted before they were processed, so going on would "+
			"leave them out silently", ErrIntegrity, failed, start, end)
	}
	s.haltReaders(failed, why)
	return nil
}

// haltReaders stops the tasks that read what cannot be fetched.
func (s *Session) haltReaders(failed *broker.FetchError, why error) {
	for _, id := range s.tasks.Readers(failed.Topic, failed.Partition) {
		s.haltTask(id, fmt.Errorf("%w%s", why, s.positionIn(id, failed.Topic)))
	}
}

// positionIn tells the committed position of a task's input, as the end of a message.
func (s *Session) positionIn(id graph.TaskID, topic string) string {
	for _, w := range s.workers {
		for _, in := range w.Tasks()[id].Inputs {
			if in.Topic == topic {
				return fmt.Sprintf(" (committed position %d)", in.Offset)
			}
		}
	}
	return ""
}

// stop takes the session down: in order, what is open is committed first; otherwise everything
// uncommitted is dropped. Without leave the membership stays, for another session or another
// process with the same identity.
func (s *Session) stop(orderly, leave bool) error {
	var errs []error
	if orderly && s.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(s.ctx, stopWait)
		errs = append(errs, s.stopOrderly(ctx))
		cancel()
	}
	s.cancel(errSessionOver)
	g := s.client()
	if g == nil {
		return errors.Join(errs...)
	}
	member, _ := g.Member()
	_ = s.cfg.Failpoints.Hit(s.ctx, failpoint.LeaveBefore) // leaving goes on
	g.Close()
	s.cfg.Self.Left() // after the last callback
	if leave {
		errs = append(errs, s.cfg.leaveGroup(s.ctx, member))
	}
	return errors.Join(errs...)
}

func (s *Session) stopOrderly(ctx context.Context) error {
	errs := make([]error, len(s.workers))
	var wg sync.WaitGroup
	for i, w := range s.workers {
		wg.Go(func() { errs[i] = w.Stop(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping: %w", err)
	}
	return s.writeRounds(ctx)
}

// writeRounds keeps each task's last commit in the rounds topic, where it outlives the group's
// offsets (they expire when the group is empty for long).
func (s *Session) writeRounds(ctx context.Context) error {
	var records []*broker.Record
	for _, w := range s.workers {
		for id, t := range w.Tasks() {
			if t.Metadata == "" {
				continue
			}
			records = append(records, &broker.Record{
				Topic: topics.RoundsTopic(s.cfg.Topology.Application()), Key: task.PositionsKey(id.String()), Value: []byte(t.Metadata),
			})
		}
	}
	if len(records) == 0 {
		return nil
	}
	if err := s.cfg.Failpoints.Hit(ctx, failpoint.PositionsWrite); err != nil {
		return err
	}
	if err := s.cfg.Cluster.Write(ctx, records...); err != nil {
		return fmt.Errorf("keeping the positions of tasks: %w", err)
	}
	return s.cfg.Failpoints.Hit(ctx, failpoint.PositionsWrite)
}
