package txn

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/globaltable"
	"github.com/onceward/onceward/txn/internal/hangwatch"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/session"
	"github.com/onceward/onceward/txn/internal/topics"
	"github.com/onceward/onceward/txn/internal/waits"
	"github.com/onceward/onceward/txn/internal/worker"
)

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
	hangwatch   *hangwatch.Watch
	self        *assign.Self
	globals     *globaltable.Tables // nil if the topology has none
	watch       *watch
	clusterID   string
	// left is what the last session left for the next one.
	left session.Left
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
	in.hangwatch = hangwatch.New(hangwatch.Config{
		Cluster: in.cluster, Topology: a.topology, Repairs: a.cfg.RepairTransactions, Logger: a.log, Metrics: a.metrics,
		Failpoints: a.cfg.failpoints,
		Directory:  in.dir, ClusterID: in.clusterID, RoundsTopic: (*in.layout.Load())[topics.RoundsTopic(a.topology.Application())].ID,
	})
	in.waits = waits.New(in.cluster, reportAfter(a.cfg.TransactionTimeout), a.log, in.hangwatch.Hangs)
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
	of := assign.Process{Instance: in.dir.Instance(), Fingerprint: in.fingerprint, RevokeMax: session.RevokeWait}
	of.Subtopologies, of.Standbys, of.Rack = in.subtopologies(), int32(in.app.cfg.Standbys), in.app.cfg.Rack
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
		as := assign.Subtopology{Name: sub.Name, Stateful: len(sub.Restored()) > 0}
		for _, src := range sub.Sources {
			as.Sources = append(as.Sources, src.Topic)
		}
		for _, st := range sub.Restored() {
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
	in.app.log.Warn("cannot describe the group", "consequence", "a member of a newer build is found when this one joins", "error", err)
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
