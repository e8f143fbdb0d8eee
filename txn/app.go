package txn

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/globaltable"
	"github.com/onceward/onceward/txn/internal/lookout"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/opening"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/session"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/topics"
	"github.com/onceward/onceward/txn/internal/waits"
	"github.com/onceward/onceward/txn/internal/worker"
)

// App runs one topology in this process. Run is called once; every other method may be called from
// any goroutine at any time.
type App struct {
	topology *topology.Topology
	cfg      Config
	log      *slog.Logger
	metrics  *metrics.Metrics
	rebuilds opening.Rebuilds
	alerts   alerts

	mu struct {
		sync.Mutex
		ran      bool
		state    State
		reason   string
		instance string
		// session is the membership and in the instance that it belongs to; nil while there is
		// none.
		session *session.Session
		in      *instance
		totals  Totals
		// http is where the endpoint listens, shared the caches while there are some.
		http   string
		shared *pebblestore.Shared
		// globals are the global tables while they are read.
		globals *globaltable.Tables
		// peersAddress is where other instances dial this one.
		peersAddress string
	}
}

// New checks the configuration: every mistake in it is a [ConfigError], joined if there are
// several. It touches neither the cluster nor the disk.
func New(t *topology.Topology, cfg Config) (*App, error) {
	if t == nil {
		return nil, &ConfigError{"topology", "there is none"}
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Application != "" {
		named, err := t.WithApplication(cfg.Application)
		if err != nil {
			return nil, &ConfigError{"Application", err.Error()}
		}
		t = named
	}
	if err := errors.Join(checkNames(t), checkMode(t, cfg)); err != nil {
		return nil, err
	}
	a := &App{topology: t, cfg: cfg, log: cfg.Logger.With("application", t.Application())}
	a.mu.state = Created
	a.metrics = metrics.New(a.snapshot)
	return a, nil
}

// checkNames refuses inputs of one task that a commit could not tell apart: it names topics by a
// hash.
func checkNames(t *topology.Topology) error {
	for _, sub := range t.Subtopologies() {
		named := map[uint32]string{}
		for _, src := range sub.Sources {
			hash := task.HashName(src.Topic)
			if other, taken := named[hash]; taken {
				return &ConfigError{"topology", fmt.Sprintf("subtopology %s reads the topics %s and %s, whose names have the same hash: "+
					"rename one of them, or read it through a repartitioning", sub.Name, other, src.Topic)}
			}
			named[hash] = src.Topic
		}
	}
	return nil
}

// instance is what one incarnation of the process needs over all its memberships.
type instance struct {
	app     *App
	dir     *state.Directory
	cluster *broker.Cluster
	starts  *broker.Starts
	plan    *topics.Plan
	looking sync.Mutex // held while plan is used, and while topology is written
	// topology is that of the application with the topics that its sources by pattern read.
	topology    *topology.Topology
	layout      atomic.Pointer[topics.Layout]
	shared      *pebblestore.Shared
	brokerCfg   broker.Config
	incarnation uint32
	fingerprint [8]byte
	budget      *worker.Budget
	waits       *waits.Waits
	lookout     *lookout.Lookout
	self        *assign.Self
	globals     *globaltable.Tables // nil if the topology has none
	watch       *watch
	clusterID   string
	// left is what the last session left for the next one.
	left session.Left
}

// Run processes until ctx ends, and then stops in order: it commits the open rounds, flushes the
// databases, and leaves the group unless Remain is set. It returns nil after such a stop, or
// ErrStopped if some task had stopped by itself. An error means that the application cannot
// continue; every store then holds committed writes only.
func (a *App) Run(ctx context.Context) (err error) {
	if !a.start() {
		return errors.New("Run was called before: an App runs once")
	}
	defer a.setState(Stopped)
	closeHTTP, err := a.serveHTTP()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeHTTP()) }()
	in, err := a.open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // ended before anything had begun
		}
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	closeControl := a.serveControl(in.dir.Path())
	defer func() { err = errors.Join(err, closeControl()) }()
	if err := in.waitFence(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // ended before anything had begun
		}
		return err
	}
	if in.startGlobals(); in.globals.Wait(ctx) != nil {
		return nil // ended before anything had begun
	}
	if in.watch, err = in.newWatch(); err != nil {
		return err
	}
	err = a.cfg.refused(a.sessions(ctx, in))
	if in.left.Nothing || errors.Is(err, kerr.FencedInstanceID) { // else the peers are to end what is left
		in.watch.goodbye()
	}
	return err
}

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
		a.log.Warn("the membership ended and is begun again", "error", err, "after", pause.Next)
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
		FailFast: cfg.FailFast, Remain: cfg.Remain, AcceptLostRows: cfg.AcceptLostRows,
		MetadataMax: cfg.metadataMax, EmptyMax: cfg.emptyMax, PurgeInterval: cfg.purgeInterval, MemberWatch: cfg.memberWatch,
		Databases: cfg.databases, Globals: in.globals,
		Cluster: in.cluster, Broker: in.brokerCfg, Starts: in.starts, Directory: in.dir, Shared: in.shared, Budget: in.budget, Waits: in.waits,
		Lookout: in.lookout, Self: in.self, Rebuilds: &a.rebuilds, Incarnation: in.incarnation, Fingerprint: in.fingerprint,
		Layout: *in.layout.Load(), Left: in.left,
		Logger: a.log, Metrics: a.metrics, Failpoints: cfg.failpoints,
		Joined: in.watch.joined, Planned: in.watch.planned, Alert: a.alert,
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

// open finds the cluster, checks the user's topics and the group, takes the state directory and
// ensures the internal topics. A mistake in one step changes nothing in the later ones.
func (a *App) open(ctx context.Context) (_ *instance, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ConnectTimeout)
	defer cancel()
	in := &instance{app: a, incarnation: rand.Uint32() | 1}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close())
		}
	}()
	sum := sha256.Sum256([]byte(a.topology.Fingerprint()))
	copy(in.fingerprint[:], sum[:])
	secure, err := broker.NewSecure(a.cfg.Security, a.log)
	if err != nil {
		return nil, securityErrors(err)
	}
	in.brokerCfg = broker.Config{
		Brokers: a.cfg.Brokers, ClientID: a.topology.Application(), Dialer: a.cfg.Dialer, Secure: secure, Logger: a.log,
		RequestTimeout: broker.RequestTimeoutFor(a.cfg.TransactionTimeout),
		Failpoints:     a.cfg.failpoints,
	}
	in.brokerCfg.Compression, _ = broker.Compression(string(a.cfg.Compression)) // New has refused what is none
	if in.cluster, err = broker.Connect(ctx, in.brokerCfg, a.topology.Application()); err != nil {
		return nil, err
	}
	in.lookout = lookout.New(lookout.Config{
		Cluster: in.cluster, Topology: a.topology, Repairs: a.cfg.RepairTransactions, Logger: a.log, Metrics: a.metrics,
		Failpoints: a.cfg.failpoints,
	})
	in.waits = waits.New(in.cluster, reportAfter(a.cfg.TransactionTimeout), a.log, in.lookout.Hangs)
	var notRead []topics.Problem
	err = a.reach(ctx, func() error {
		if err := in.cluster.RequireTransactionVersion2(ctx); err != nil {
			return err
		}
		var err error
		if in.clusterID, err = in.cluster.ID(ctx); err != nil {
			return err
		}
		if in.topology, notRead, err = topics.Bind(ctx, in.cluster, a.topology); err != nil {
			return err
		}
		in.plan, err = topics.Check(ctx, in.cluster, in.topology, topics.Options{
			Replicas: a.cfg.InternalReplicas, InSyncMin: a.cfg.InternalMinInSync,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := in.checkGroup(ctx); err != nil {
		return nil, err
	}
	if err := in.checkCommits(ctx); err != nil {
		return nil, err
	}
	in.dir, err = state.OpenDirectory(a.cfg.StateDir, state.DirectoryOptions{
		Application: a.topology.Application(), Fingerprint: a.topology.Fingerprint(), Instance: a.cfg.Instance, Cluster: in.clusterID,
		Open: func(path string) (state.Database, error) {
			return pebblestore.Open(path, pebblestore.Options{Logger: a.log})
		},
	})
	if err != nil {
		return nil, err
	}
	if err := in.tellChange(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.mu.instance = in.dir.Instance()
	a.mu.Unlock()
	in.brokerCfg.ClientID += "-" + in.dir.Instance()
	err = a.reach(ctx, func() error {
		layout, err := in.plan.Ensure(ctx, in.cluster)
		if err == nil {
			in.layout.Store(&layout)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	a.alert(append(in.layout.Load().NotRead(in.topology), notRead...))
	in.tellTolerated()
	in.tellDeletedByClock()
	in.tellUnreplicated(ctx)
	in.starts = broker.NewStarts(in.cluster, restore.StartsOf(in.topology))
	in.brokerCfg.BatchMaxBytes = func(topic string) int32 { return (*in.layout.Load())[topic].MaxMessageBytes }
	in.budget = a.newBudget()
	in.shared = pebblestore.NewShared(a.cfg.CacheBytes, openFilesMax)
	a.setShared(in.shared)
	if in.self, err = in.newSelf(); err != nil {
		return nil, err
	}
	return in, nil
}

const (
	// An open transaction is reported reportMargin after the transaction timeout, and after
	// reportMax at the latest.
	reportMargin = 15 * time.Second
	reportMax    = time.Minute
)

// reportAfter returns when a wait for an open transaction is reported. A transaction of the
// application itself has ended by then, unless it hangs.
func reportAfter(transactionTimeout time.Duration) time.Duration {
	return min(transactionTimeout+reportMargin, reportMax)
}

// newSelf reads which tasks have state on disk. It opens no database.
func (in *instance) newSelf() (*assign.Self, error) {
	of := assign.Process{Instance: in.dir.Instance(), Fingerprint: in.fingerprint, Stateful: map[string]bool{}, RevokeMax: session.RevokeWait}
	of.Subtopologies = in.subtopologies()
	for _, sub := range in.topology.Subtopologies() {
		if len(sub.Stores) > 0 {
			of.Stateful[sub.Name] = true
		}
	}
	places, err := in.dir.Tasks()
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		of.OnDisk = append(of.OnDisk, graph.TaskID{Subtopology: p.Subtopology, Partition: p.Partition})
	}
	return assign.NewSelf(of), nil
}

// subtopologies are what the process tells the group that it can run.
func (in *instance) subtopologies() (out []assign.Subtopology) {
	for _, sub := range in.topology.Subtopologies() {
		as := assign.Subtopology{Name: sub.Name}
		for _, src := range sub.Sources {
			as.Sources = append(as.Sources, src.Topic)
		}
		for _, st := range sub.Stores {
			if n := (*in.layout.Load())[st.Topic()].Partitions; as.PartitionsMax == 0 || n < as.PartitionsMax {
				as.PartitionsMax = n
			}
		}
		out = append(out, as)
	}
	return out
}

// newBudget returns the budget of markers that all workers share.
func (a *App) newBudget() *worker.Budget {
	return worker.NewBudget(a.cfg.MarkersPerSecondMax, func() {
		a.log.Warn("more transaction markers are written than intended, although rounds commit as rarely as they may",
			"markers_per_second", a.cfg.MarkersPerSecondMax, "commit_interval_max", a.cfg.CommitIntervalMax,
			"remedy", "a longer CommitIntervalMax, fewer workers, or a higher MarkersPerSecondMax")
	})
}

// reach repeats a request until a broker answers or ctx ends: a broker may restart just when an
// instance starts. Every answer is final, also a refusal.
func (a *App) reach(ctx context.Context, ask func() error) error {
	pause := backoff.Backoff{Next: 100 * time.Millisecond, Max: 5 * time.Second}
	for {
		err := ask()
		if err == nil || !broker.Unreachable(err) {
			return err
		}
		a.log.Info("the cluster has not answered yet", "error", err, "again_in", pause.Next)
		if pause.Wait(ctx) != nil {
			return err
		}
	}
}

// tellTolerated warns about inputs whose retention exceeds the dedupe window of a node. The program
// has accepted this, but operators read the log and not the program.
func (in *instance) tellTolerated() {
	for _, m := range in.plan.Tolerated() {
		in.app.log.Warn("the retention of an input exceeds the dedupe window", "topic", m.Topic, "finding", m.Error())
	}
}

// tellDeletedByClock warns about changelogs from which brokers may delete records that their stores
// still need.
func (in *instance) tellDeletedByClock() {
	deleted := in.layout.Load().DeletedByClock(in.app.topology)
	for _, topic := range slices.Sorted(maps.Keys(deleted)) {
		in.app.log.Warn("brokers delete records of a changelog by their clock, and the store still needs them where its stream time is behind",
			"topic", topic, "retention", deleted[topic], "remedy", topics.KeepChangelog)
	}
}

// tellUnreplicated warns about internal topics that would be lost with one broker.
func (in *instance) tellUnreplicated(ctx context.Context) {
	brokers, err := in.cluster.Brokers(ctx)
	if err != nil {
		in.app.log.Warn("cannot check the number of replicas of the internal topics", "error", err)
		return
	}
	if names := in.layout.Load().Unreplicated(in.app.topology, brokers); len(names) > 0 {
		in.app.log.Warn("internal topics have one replica, and the cluster has brokers for more: state is lost with one of them",
			"topics", strings.Join(names, ","), "brokers", brokers,
			"remedy", "add replicas (kafka-reassign-partitions.sh); for topics that are created, set InternalReplicas (--internal-replicas)")
	}
}

// groupCheckMax is how long the look at the group may take.
const groupCheckMax = 10 * time.Second

// checkGroup refuses the group of a newer build. A group that cannot be read is only logged: the
// join will fail and say what to do.
func (in *instance) checkGroup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, groupCheckMax)
	defer cancel()
	err := in.cluster.CheckGroup(ctx)
	if err == nil || errors.Is(err, state.ErrFormat) {
		return err
	}
	in.app.log.Warn("cannot read the versions of the group's members", "error", err)
	return nil
}

// openFilesMax is how many table files are kept open by all databases together.
const openFilesMax = 1000

func (in *instance) close() error {
	if in.watch != nil {
		in.watch.close() // before the clients with which it fences
	}
	err := in.closeGlobals()
	if in.cluster != nil {
		in.cluster.Close()
	}
	if in.shared != nil {
		in.app.setShared(nil)
		in.shared.Close()
	}
	if in.dir == nil {
		return err
	}
	return errors.Join(err, in.dir.Close())
}

// producers initialises every transactional id that this instance has used since a start that found
// no hanging transaction. It does so before the instance joins the group, and so ends the
// transactions that the previous incarnation left open. Otherwise the first stable offsets would
// wait for transactions to time out. producers returns the producers of the workers. An id with a
// hanging transaction is not among them.
func (in *instance) producers(ctx context.Context) ([][2]*broker.Producer, error) {
	ctx, cancel := context.WithTimeout(ctx, in.app.cfg.ConnectTimeout)
	defer cancel()
	for highest := max(in.app.cfg.Workers, in.dir.MaxWorkers()); ; {
		if err := in.dir.RaiseMaxWorkers(highest); err != nil {
			return nil, err
		}
		all, err := in.settled(ctx, highest)
		if err != nil {
			return nil, err
		}
		hangs, clean := in.lookout.AtStart(ctx)
		out, missing := in.choose(all, hangs)
		if missing > 0 {
			highest += missing
			continue
		}
		if clean { // the ids of workers beyond those are initialised, and nothing of them hangs
			err = in.dir.LowerMaxWorkers(in.app.cfg.Workers)
		}
		return out, err
	}
}

// choose returns the producers of the workers, without those of which a transaction hangs, and
// closes the others. If pairs are missing, it closes all and returns how many are missing.
func (in *instance) choose(all [][2]*broker.Producer, hangs map[string]bool) (out [][2]*broker.Producer, missing int) {
	var ids []string
	var rest [][2]*broker.Producer
	for _, pair := range all {
		if len(out) == in.app.cfg.Workers || hangs[pair[0].TransactionalID()] || hangs[pair[1].TransactionalID()] {
			rest = append(rest, pair)
			continue
		}
		out = append(out, pair)
		ids = append(ids, pair[0].TransactionalID(), pair[1].TransactionalID())
	}
	if missing = in.app.cfg.Workers - len(out); missing > 0 {
		rest, out, ids = all, nil, nil
	}
	closePairs(rest)
	in.lookout.Use(ids...)
	return out, missing
}

func closePairs(pairs [][2]*broker.Producer) {
	for _, pair := range pairs {
		pair[0].Close()
		pair[1].Close()
	}
}

// settled returns the producers of so many workers once all of them are initialised.
func (in *instance) settled(ctx context.Context, workers int) ([][2]*broker.Producer, error) {
	out := make([][2]*broker.Producer, workers)
	errs := make([]error, 2*workers)
	var ids []string
	for w := range out {
		for turn := range 2 {
			id := broker.TransactionalID(in.app.topology.Application(), in.dir.Instance(), w, turn)
			ids = append(ids, id)
			out[w][turn] = broker.NewProducer(in.brokerCfg, id, in.app.cfg.TransactionTimeout)
		}
	}
	in.lookout.Note(ctx, false, ids...)
	var wg sync.WaitGroup
	for w, pair := range out {
		for turn, p := range pair {
			wg.Go(func() { errs[2*w+turn] = settle(ctx, p, in.app.cfg.failpoints) })
		}
	}
	in.watch.used(ids)
	wg.Wait()
	err := errors.Join(errs...)
	for _, one := range errs {
		if broker.Permanent(one) {
			err = one // the others say the same
		}
	}
	if err != nil {
		closePairs(out)
		return nil, fmt.Errorf("%w: %w", errNotBegun, err)
	}
	return out, nil
}

// settle tries until ctx ends: coordinators may still be loading.
func settle(ctx context.Context, p *broker.Producer, points failpoint.Set) error {
	pause := backoff.Backoff{Next: 20 * time.Millisecond, Max: time.Second}
	for {
		err := points.Hit(ctx, failpoint.InitBefore)
		if err == nil {
			err = p.Settle(ctx)
		}
		if err == nil {
			err = points.Hit(ctx, failpoint.InitAfter)
		}
		if err == nil || broker.Permanent(err) || ctx.Err() != nil {
			return err
		}
		if pause.Wait(ctx) != nil {
			return err
		}
	}
}
