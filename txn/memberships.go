package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/session"
	"github.com/onceward/onceward/txn/internal/topics"
)

// sessions runs one membership after the other.
func (a *App) sessions(ctx context.Context, in *instance) error {
	pause := backoff.Backoff{Next: 100 * time.Millisecond, Max: 10 * time.Second}
	for first := true; ; first = false {
		began := time.Now()
		var err error
		if !first { // open has just done it
			err = in.verify(ctx)
		}
		if err == nil {
			err = a.session(ctx, in)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errNotBegun) && ctx.Err() != nil:
			return in.leave(ctx) // ended before anything of this session had begun
		case errors.Is(err, errNotBegun) && !first && !broker.Permanent(err):
			// The cluster was there before. A membership waits for the cluster as well.
		case ctx.Err() != nil && session.OnlyRestartable(err):
			a.log.Warn("the membership ended together with the application", "error", err)
			return in.leave(ctx) // uncommitted rounds will be run again, as after a crash
		case ctx.Err() != nil || !session.Restartable(err):
			return in.fencedInstance(err)
		}
		if time.Since(began) > time.Minute {
			pause.Next = 100 * time.Millisecond
		}
		if broker.Unreachable(err) {
			pause.Next = min(pause.Next, unreachablePause)
		}
		a.reconnecting(err)
		level := slog.LevelWarn
		if session.Wanted(err) {
			level = slog.LevelInfo
		}
		a.log.Log(ctx, level, "the membership ended and is begun again", "error", err, "after", pause.Next)
		if pause.Wait(ctx) != nil { // ended between two memberships
			return in.leave(ctx)
		}
	}
}

// unreachablePause bounds the pause before the next membership while the brokers do not answer. A
// try costs one request.
const unreachablePause = time.Second

// session runs one membership, and keeps what it leaves.
func (a *App) session(ctx context.Context, in *instance) error {
	in.left.Nothing = false // the join replaces the member that stayed
	producers, err := in.producers(ctx)
	if err != nil {
		return err
	}
	s := session.New(ctx, in.session(), producers)
	a.attach(s, in)
	defer a.detach(s)
	in.left, err = s.Run(ctx)
	return err
}

func (a *App) attach(s *session.Session, in *instance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.session, a.mu.in, a.mu.state, a.mu.reason = s, in, Running, ""
}

func (a *App) detach(s *session.Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.totals.add(Totals(s.Totals()))
	a.mu.session, a.mu.in = nil, nil
}

// session is what the next membership needs.
func (in *instance) session() session.Config {
	a, cfg := in.app, in.app.cfg
	return session.Config{
		Topology: in.topology, Mode: cfg.Mode, Modes: cfg.modes(),
		Workers: cfg.Workers, TransactionTimeout: cfg.TransactionTimeout, SessionTimeout: cfg.SessionTimeout,
		CommitIntervalMax: cfg.CommitIntervalMax, OrderWaitMax: cfg.OrderWaitMax, MaxFutureTimestamp: cfg.MaxFutureTimestamp,
		RoundBytesMax: cfg.RoundBytesMax, QueueBytesMax: cfg.QueueBytesMax, RestoreBytesMax: cfg.RestoreBytesMax,
		StandbyBytesPerSecond: cfg.StandbyBytesPerSecondMax, StandbyDiskMax: cfg.StandbyDiskMax,
		FailFast: cfg.FailFast, Remain: cfg.Remain, AcceptLostRows: cfg.AcceptLostRows,
		MetadataMax: cfg.metadataMax, EmptyMax: cfg.emptyMax, PurgeInterval: cfg.purgeInterval, MemberWatch: cfg.memberWatch,
		Databases: cfg.databases, Globals: in.globals,
		Cluster: in.cluster, Broker: in.brokerCfg, Starts: in.starts, Directory: in.dir, Shared: in.shared, Budget: in.budget, Waits: in.waits,
		HangWatch: in.hangwatch, Self: in.self, Rebuilds: &a.rebuilds, Incarnation: in.incarnation, Fingerprint: in.fingerprint,
		Layout: *in.layout.Load(), Left: in.left,
		Logger: a.log, Metrics: a.metrics, Failpoints: cfg.failpoints,
		Joined: in.watch.joined, Planned: in.watch.planned, Over: in.watch.over, Alert: a.alert,
		Reconnecting: a.reconnecting, Stopping: func() { a.setState(Stopping) },
	}
}

// leave removes the member that a session left in the group for the next one, if the application
// ends instead.
func (in *instance) leave(ctx context.Context) (err error) {
	in.left, err = session.Leave(ctx, in.session(), in.left)
	return err
}

// errNotBegun says that a session failed before any part of it was running.
var errNotBegun = errors.New("the membership cannot be begun")

// verify checks every topic again before a further membership, because topics may have changed
// since the start. If a known topic is missing in the answer, it is asked for again for a while:
// the knowledge of one broker can be old for a moment.
func (in *instance) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, in.app.cfg.ConnectTimeout)
	defer cancel()
	pause := backoff.Backoff{Next: 100 * time.Millisecond, Max: time.Second}
	for until := time.Now().Add(min(topics.AbsentMax, in.app.cfg.ConnectTimeout/2)); ; {
		last := time.Now().After(until)
		seen, err := in.look(ctx, !last)
		_, wrong := errors.AsType[*topics.Mismatch](err)
		switch {
		case err == nil:
			in.adopt(seen)
			in.tellTolerated()
			return nil
		case !wrong:
			return fmt.Errorf("%w: %w", errNotBegun, err)
		case !errors.Is(err, topics.ErrAbsent), last:
			return err
		}
		in.app.log.Warn("a topic is not in the cluster's answer and is asked for again", "error", err, "after", pause.Next)
		if pauseErr := pause.Wait(ctx); pauseErr != nil {
			return fmt.Errorf("%w: %w", errNotBegun, pauseErr)
		}
	}
}
