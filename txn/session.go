package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/health"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/topics"
	"github.com/onceward/onceward/txn/internal/worker"
)

// session is one membership of the group with everything that depends on it. It ends with the membership: tasks are never carried
// from one to the next.
type session struct {
	in        *instance
	subs      map[string]topology.Subtopology
	ownership *assign.Ownership
	restorer  *restore.Restorer
	workers   []*worker.Worker
	tasks     *taskTable
	// dispatcher is the progress of the poll loop, ends where the inputs end.
	dispatcher health.Loop
	ends       inputEnds

	// ctx ends when the session is abandoned; waits and opens of tasks end with it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// poll ends before ctx: nothing more is fetched, and what was fetched can still be committed.
	poll    context.Context
	endPoll context.CancelCauseFunc
	// opening counts the goroutines that open tasks, openings orders those of one task.
	opening  sync.WaitGroup
	openings openings
	pauses   *pauses
	intake   intake
	// rebuilds are what was asked of the process; nil in tests that ask for nothing.
	rebuilds *rebuilds
	// failFast ends the session with the first task that stops.
	failFast bool
	// told is which tasks were last said to be running.
	told struct {
		sync.Mutex
		tasks string
	}
	// promised says that the group's plan owes this process a task that another member still has to give up.
	promised atomic.Bool
	// planned wakes who waits for the group's plan to change.
	planned chan struct{}
	// full has a token when a task that worked has stopped because its disk is full.
	full chan struct{}

	mu struct {
		sync.Mutex
		group   *broker.Group // nil until joined
		cancels map[topology.TaskID]context.CancelFunc
	}
}

const (
	// rebalanceTimeout is how long the group waits for a member in a rebalance, and the client for a lost answer of one. A revoke takes
	// as long as a round at most.
	rebalanceTimeout = 30 * time.Second
	// revokeWait is the most that a revoke waits for the round in flight: the group waits for us meanwhile. A task that is
	// given up after it is safe, because nothing uncommitted is in its store.
	revokeWait = rebalanceTimeout / 2
	stopWait   = 30 * time.Second
	// leaveWait is how long a stop tries to leave the group while its coordinator is away. The client tries again by itself.
	leaveWait    = 10 * time.Second
	fetchWaitMax = 250 * time.Millisecond
	pollRecords  = 8192
	// reportMargin beyond the transaction timeout an open transaction is reported, but after reportMax in any case.
	reportMargin = 15 * time.Second
	reportMax    = time.Minute
)

// reportAfter returns when a wait for an open transaction is reported. One of the application itself has ended by then, unless it hangs.
func reportAfter(transactionTimeout time.Duration) time.Duration {
	return min(transactionTimeout+reportMargin, reportMax)
}

// errGroupSession says that the membership is over and may be begun again.
var errGroupSession = errors.New("the group session failed")

// session joins, works until ctx ends or something fails, and takes everything down.
func (a *App) session(ctx context.Context, in *instance) error {
	in.leftNothing = false // in.stays goes with the join
	s, err := a.newSession(ctx, in)
	if err != nil {
		return err
	}
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
	workers.Go(s.purge)
	workers.Go(s.watchEnds)
	workers.Go(s.watchTopics)
	workers.Go(s.forceRebalances)
	workers.Go(s.watchSpace)
	workers.Go(func() { in.lookout.Watch(s.ctx, in.waits, s.cancel) })
	workers.Go(func() { in.lookout.Repair(s.ctx) })
	a.attach(s)
	err = s.work(ctx)
	if err == nil {
		err = s.stopped()
	}
	if ctx.Err() == nil && restartable(err) { // otherwise no other membership follows
		a.reconnecting(err)
		err = s.unlessFenced(err)
	}
	if ctx.Err() != nil || !restartable(err) {
		a.setState(Stopping)
	}
	ends := ctx.Err() != nil || errors.Is(err, ErrAllStopped) || errors.Is(err, ErrStopped)
	orderly := ends || errors.Is(err, errResumed) || errors.Is(err, errRebuilt) || errors.Is(err, errNothingLost)
	if orderly && !ends && s.client() != nil {
		in.stays, _ = s.member()
	}
	stopErr := s.stop(orderly, ends && !a.cfg.Remain)
	in.leftNothing = ends && stopErr == nil
	if ends && in.stays != "" { // ended before the join
		stopErr = errors.Join(stopErr, in.leave(ctx))
	}
	s.cancel(errSessionOver)
	s.opening.Wait()
	s.restorer.Close()
	workers.Wait()
	a.detach(s)
	// A worker's error ends the work too, and is told once.
	all := []error{err, stopErr}
	for _, failure := range failures {
		if failure != nil && !errors.Is(err, failure) && !errors.Is(stopErr, failure) {
			all = append(all, failure)
		}
	}
	return errors.Join(all...)
}

// errSessionOver ends what is left of a session.
var errSessionOver = errors.New("the session is over")

// memberWatch is how often the member id is compared while nothing is committed.
const memberWatch = time.Second

// watchMember ends the session when the client has rejoined the group as another member, which it can do without a callback: somebody
// else may have owned the tasks in between. Commits compare the id themselves; this is for instances that have nothing to commit.
func (s *session) watchMember() {
	tick := time.NewTicker(s.in.app.cfg.memberWatch)
	defer tick.Stop()
	first := ""
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		id, _ := s.member()
		if id == "" {
			continue
		}
		s.in.watch.joined(id)
		first = cmp.Or(first, id)
		if id != first || !s.tasks.openedAs(id) { // it may have changed before the first look
			s.cancel(assign.ErrMemberChanged)
			return
		}
	}
}

func (a *App) newSession(ctx context.Context, in *instance) (*session, error) {
	producers, err := in.producers(ctx)
	if err != nil {
		return nil, err
	}
	a.metrics.Membership()
	s := &session{
		in: in, subs: map[string]topology.Subtopology{}, tasks: newTaskTable(), failFast: a.cfg.FailFast, rebuilds: &a.rebuilds,
		dispatcher: health.Loop{Name: "dispatcher"}, planned: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
	s.mu.cancels = map[topology.TaskID]context.CancelFunc{}
	s.intake.queueBytesMax = min(a.cfg.QueueBytesMax, queueBytesMost)
	s.pauses = newPauses(
		func(topic string, partition int32) { s.client().Pause(topic, partition) },
		func(topic string, partition int32) { s.client().Resume(topic, partition) },
	)
	// The session outlives ctx for as long as it takes to commit what is open.
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.poll, s.endPoll = context.WithCancelCause(s.ctx)
	for _, sub := range a.topology.Subtopologies() {
		s.subs[sub.Name] = sub
	}
	s.ownership = assign.New(in.self.Subtopologies())
	s.restorer = restore.New(restore.Restorer{
		Cluster: in.cluster, Layout: *in.layout.Load(), Logger: a.log, Waits: in.waits,
		RoundsTopic: topics.RoundsTopic(a.topology.Application()), Metrics: a.metrics,
		BytesMax: a.cfg.RestoreBytesMax, AcceptLostRows: a.cfg.AcceptLostRows, Failpoints: a.cfg.failpoints,
	})
	coordinator := broker.NewCoordinator(in.cluster)
	for i := range a.cfg.Workers {
		s.workers = append(s.workers, worker.New(worker.Config{
			ID: i, Cluster: in.cluster, Coordinator: coordinator, Ownership: s.ownership, Member: s.member, Resume: s.resume, Waits: in.waits, Settle: in.lookout.Settle,
			Instance: in.dir.Instance(), Incarnation: in.incarnation, Fingerprint: in.fingerprint,
			RoundsTopic: topics.RoundsTopic(a.topology.Application()),
			MetadataMax: a.cfg.metadataMax, Deadlines: worker.DeadlinesFor(a.cfg.TransactionTimeout), Budget: in.budget,
			Cadence: worker.Cadence{
				IntervalMin: commitIntervalMin, IntervalMax: a.cfg.CommitIntervalMax, BytesMax: a.cfg.RoundBytesMax,
				HeldBytesMax: s.intake.journal, EmptyMax: a.cfg.emptyMax,
			},
			QueueBytesLow: s.intake.low, Stopped: s.stoppedByWorker, Retrying: s.retrying, Logger: a.log,
			Metrics: a.metrics.Worker(i), Failpoints: a.cfg.failpoints,
		}, producers[i]))
	}
	return s, nil
}

// commitIntervalMin is the least time between two commits of an idle worker.
const commitIntervalMin = 5 * time.Millisecond

func (a *App) attach(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.session, a.mu.state, a.mu.reason = s, Running, ""
}

func (a *App) detach(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.totals.add(s.totals())
	a.mu.session = nil
}

func (s *session) totals() Totals {
	var t Totals
	for _, w := range s.workers {
		st := w.Stats()
		t.add(Totals{st.Records.Load(), st.Punctuations.Load(), st.Outputs.Load(), st.DeadLetters.Load(), st.Commits.Load(), st.Aborts.Load(), st.Retries.Load()})
	}
	return t
}

// member reads the membership without waiting.
func (s *session) member() (string, int32) {
	g := s.client()
	if g == nil {
		return "", -1
	}
	return g.Member()
}

// work joins the group and dispatches records until ctx ends or the session fails.
func (s *session) work(ctx context.Context) error {
	gc := broker.GroupConfig{
		Group: s.in.app.topology.Application(), Instance: s.in.dir.Instance(), Cluster: s.in.cluster, Starts: s.in.starts,
		SessionTimeout: s.in.app.cfg.SessionTimeout, RebalanceTimeout: rebalanceTimeout,
		FetchWaitMax: fetchWaitMax, FetchBytesMax: fetchBytes, FetchAllBytesMax: fetchAllBytes,
	}
	for _, sub := range s.subs {
		for _, src := range sub.Sources {
			gc.Topics = append(gc.Topics, src.Topic)
		}
	}
	if err := s.in.app.cfg.failpoints.Hit(ctx, failpoint.JoinBefore); err != nil {
		return fmt.Errorf("%w: %w", errGroupSession, err)
	}
	s.in.stays = "" // the client is that member from here on
	// Callbacks can come before Join returns; they need the group only from another goroutine.
	s.mu.Lock()
	g, err := broker.Join(s.in.brokerCfg, gc, (*callbacks)(s))
	s.mu.group = g
	s.mu.Unlock()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.endPoll(nil) })
	defer stop()
	for {
		failed := g.Poll(s.poll, pollRecords, s.dispatch)
		g.Release()
		s.dispatcher.Waits()
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

// fetchFailed judges what the client could not retry by itself. What is about a partition stops its task, and is no error of the
// session.
func (s *session) fetchFailed(failed *broker.FetchError) error {
	if failed.Topic == "" {
		if broker.Permanent(failed) {
			return failed // such as a permission on the group, or an identity that somebody else uses
		}
		return fmt.Errorf("%w: %w", errGroupSession, failed)
	}
	if suspected, ok := errors.AsType[*broker.ShortenedError](failed); ok {
		return s.logShortened(failed, suspected)
	}
	var why error = failed
	if errors.Is(failed, kerr.OffsetOutOfRange) {
		start, end, err := s.in.cluster.LogBounds(s.ctx, failed.Topic, failed.Partition)
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
func (s *session) haltReaders(failed *broker.FetchError, why error) {
	for _, id := range s.readers(failed.Topic, failed.Partition) {
		s.haltTask(id, fmt.Errorf("%w%s", why, s.positionIn(id, failed.Topic)))
	}
}

// positionIn tells the committed position of a task's input, as the end of a message.
func (s *session) positionIn(id topology.TaskID, topic string) string {
	for _, w := range s.workers {
		for _, in := range w.Tasks()[id].Inputs {
			if in.Topic == topic {
				return fmt.Sprintf(" (committed position %d)", in.Offset)
			}
		}
	}
	return ""
}

// stop takes the session down: in order, what is open is committed first; otherwise everything uncommitted is dropped. Without leave the
// membership stays, for another session or another process with the same identity.
func (s *session) stop(orderly, leave bool) error {
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
	_ = s.in.app.cfg.failpoints.Hit(s.ctx, failpoint.LeaveBefore) // leaving goes on
	g.Close()
	s.in.self.Left() // after the last callback
	if leave {
		errs = append(errs, s.in.leaveGroup(s.ctx, member))
	}
	return errors.Join(errs...)
}

func (s *session) stopOrderly(ctx context.Context) error {
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

// writeRounds keeps each task's last commit in the rounds topic, where it outlives the group's offsets (they expire when the group is
// empty for long).
func (s *session) writeRounds(ctx context.Context) error {
	for _, w := range s.workers {
		for id, t := range w.Tasks() {
			if t.Metadata == "" {
				continue
			}
			if err := s.in.app.cfg.failpoints.Hit(ctx, failpoint.PositionsWrite); err != nil {
				return err
			}
			err := s.in.cluster.Write(ctx, &broker.Record{
				Topic: topics.RoundsTopic(s.in.app.topology.Application()), Key: task.PositionsKey(id.String()), Value: []byte(t.Metadata),
			})
			if err != nil {
				return fmt.Errorf("keeping the positions of task %s: %w", id, err)
			}
		}
	}
	return nil
}
