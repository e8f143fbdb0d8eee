package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
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

	// ctx ends when the session is abandoned; waits and opens of tasks end with it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// poll ends before ctx: nothing more is fetched, and what was fetched can still be committed.
	poll    context.Context
	endPoll context.CancelCauseFunc
	// opening counts the goroutines that open tasks.
	opening sync.WaitGroup

	mu struct {
		sync.Mutex
		group   *broker.Group // nil until joined
		cancels map[topology.TaskID]context.CancelFunc
	}
}

const (
	rebalanceTimeout = 60 * time.Second
	// revokeWait is the most that a revoke waits for the round in flight: the group waits for us meanwhile. A task that is
	// given up after it is safe, because nothing uncommitted is in its store.
	revokeWait   = rebalanceTimeout / 2
	stopWait     = 30 * time.Second
	fetchWaitMax = 250 * time.Millisecond
	fetchBytes   = 4 << 20
	pollRecords  = 8192
	// stuckMargin beyond the transaction timeout an open transaction is reported.
	stuckMargin = 15 * time.Second
)

// errGroupSession says that the membership is over and may be begun again.
var errGroupSession = errors.New("the group session failed")

// session joins, works until ctx ends or something fails, and takes everything down.
func (a *App) session(ctx context.Context, in *instance) error {
	s, err := a.newSession(ctx, in)
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	ends := make([]error, len(s.workers))
	for i, w := range s.workers {
		workers.Go(func() {
			if ends[i] = w.Run(s.ctx); ends[i] != nil {
				s.cancel(ends[i])
			}
		})
	}
	workers.Go(s.watchMember)
	a.attach(s)
	err = s.work(ctx)
	a.setState(Stopping)
	if err == nil {
		err = s.stopped()
	}
	stopErr := s.stop(ctx.Err() != nil || errors.Is(err, ErrAllStopped))
	s.cancel(errSessionOver)
	s.opening.Wait()
	workers.Wait()
	a.detach(s)
	// A worker's error ends the work too, and is told once.
	all := []error{err, stopErr}
	for _, end := range ends {
		if end != nil && !errors.Is(err, end) && !errors.Is(stopErr, end) {
			all = append(all, end)
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
	tick := time.NewTicker(memberWatch)
	defer tick.Stop()
	first := ""
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		id, _ := s.member()
		switch {
		case id == "" || id == first:
		case first == "":
			first = id
		default:
			s.cancel(assign.ErrMemberChanged)
			return
		}
	}
}

func (a *App) newSession(ctx context.Context, in *instance) (*session, error) {
	a.setState(Starting)
	producers, err := in.producers(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{in: in, subs: map[string]topology.Subtopology{}, tasks: newTaskTable()}
	s.mu.cancels = map[topology.TaskID]context.CancelFunc{}
	// The session outlives ctx for as long as it takes to commit what is open.
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.poll, s.endPoll = context.WithCancelCause(s.ctx)
	var subs []assign.Subtopology
	for _, sub := range a.topology.Subtopologies() {
		s.subs[sub.Name] = sub
		as := assign.Subtopology{Name: sub.Name}
		for _, src := range sub.Sources {
			as.Sources = append(as.Sources, src.Topic)
		}
		subs = append(subs, as)
	}
	s.ownership = assign.New(subs)
	s.restorer = restore.New(restore.Restorer{
		Cluster: in.cluster, Layout: *in.layout.Load(), Logger: a.log, StuckAfter: a.cfg.TransactionTimeout + stuckMargin,
		RoundsTopic: topics.RoundsTopic(a.topology.Application()),
	})
	coordinator := broker.NewCoordinator(in.cluster)
	for i := range a.cfg.Workers {
		s.workers = append(s.workers, worker.New(worker.Config{
			ID: i, Cluster: in.cluster, Coordinator: coordinator, Ownership: s.ownership, Member: s.member, Resume: s.resume,
			Instance: in.dir.Instance(), Incarnation: in.incarnation, Fingerprint: in.fingerprint,
			RoundsTopic: topics.RoundsTopic(a.topology.Application()),
			MetadataMax: a.cfg.metadataMax, Deadlines: worker.DeadlinesFor(a.cfg.TransactionTimeout),
			Cadence: worker.Cadence{
				IntervalMin: commitIntervalMin, IntervalMax: a.cfg.CommitIntervalMax, BytesMax: a.cfg.RoundBytesMax,
				HeldBytesMax: a.cfg.QueueBytesMax / 4,
			},
			QueueBytesLow: a.cfg.QueueBytesMax / 4, Stopped: s.taskStopped, Logger: a.log,
		}, producers[i]))
	}
	return s, nil
}

// commitIntervalMin is the least time between two commits of an idle worker.
const commitIntervalMin = 5 * time.Millisecond

func (a *App) attach(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.session, a.mu.state = s, Running
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
		t.add(Totals{st.Records.Load(), st.Outputs.Load(), st.DeadLetters.Load(), st.Commits.Load(), st.Aborts.Load(), st.Retries.Load()})
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
		Group: s.in.app.topology.Application(), Instance: s.in.dir.Instance(), Starts: map[string]broker.Start{},
		SessionTimeout: s.in.app.cfg.SessionTimeout, RebalanceTimeout: rebalanceTimeout,
		FetchWaitMax: fetchWaitMax, FetchBytesMax: fetchBytes,
	}
	for _, sub := range s.subs {
		for _, src := range sub.Sources {
			gc.Topics = append(gc.Topics, src.Topic)
			if start, ok := startOf(src); ok {
				gc.Starts[src.Topic] = start
			}
		}
	}
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
		err := g.Poll(s.poll, pollRecords, s.dispatch)
		g.Release()
		switch {
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		case ctx.Err() != nil:
			return nil
		case s.poll.Err() != nil:
			return context.Cause(s.poll)
		case err != nil:
			return s.fetchFailed(err)
		}
	}
}

func startOf(src topology.Source) (broker.Start, bool) {
	switch src.Start.From {
	case topology.Latest:
		return broker.Start{Latest: true}, true
	case topology.AtTime:
		return broker.Start{Time: src.Start.Time}, true
	case topology.Earliest:
	}
	return broker.Start{}, false
}

// fetchFailed judges what the client could not retry by itself.
func (s *session) fetchFailed(err error) error {
	var fe *broker.FetchError
	switch {
	case errors.Is(err, kerr.FencedInstanceID):
		return err // another try would only fence the other one
	case broker.Permanent(err):
		return err // such as a permission on the group
	case errors.As(err, &fe) && errors.Is(err, kerr.OffsetOutOfRange):
		start, end, boundsErr := s.in.cluster.LogBounds(s.ctx, fe.Topic, fe.Partition)
		if boundsErr != nil {
			return errors.Join(err, boundsErr)
		}
		return fmt.Errorf("%w: the log holds offsets %d to %d; records were deleted before they were processed, so going on would "+
			"leave them out silently", err, start, end)
	case errors.As(err, &fe) && fe.Topic != "":
		return err
	default:
		return fmt.Errorf("%w: %w", errGroupSession, err)
	}
}

// stop takes the session down: in order, what is open is committed first; otherwise everything uncommitted is dropped.
func (s *session) stop(orderly bool) error {
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
	g.Close()
	if orderly && !s.in.app.cfg.Remain {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 5*time.Second)
		defer cancel()
		errs = append(errs, s.in.cluster.LeaveGroup(ctx, member, s.in.dir.Instance()))
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
			err := s.in.cluster.Write(ctx, &broker.Record{
				Topic: topics.RoundsTopic(s.in.app.topology.Application()), Key: []byte("positions " + id.String()), Value: []byte(t.Metadata),
			})
			if err != nil {
				return fmt.Errorf("keeping the positions of task %s: %w", id, err)
			}
		}
	}
	return nil
}
