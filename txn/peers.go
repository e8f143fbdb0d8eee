package txn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/peers"
	"github.com/onceward/onceward/txn/internal/report"
)

// watch is this process's part in the watching of instances, and in their queries. It outlives
// memberships.
type watch struct {
	in    *instance
	peers *peers.Peers
	stop  context.CancelFunc
	ended chan struct{}
	// plan is the last one of the group, nil before the first.
	plan    atomic.Pointer[assign.Plan]
	queries *peerQueries
	// others are asked what they do, for the console.
	others *report.Instances

	mu     sync.Mutex
	member string
	ids    []string // of all transactions of this instance

	mute bool // the last sign of life has failed; only live uses it
}

// newWatch begins to watch, and sets the address that this instance tells others.
func (in *instance) newWatch() (*watch, error) {
	cfg, log := in.app.cfg, in.app.log
	w := &watch{in: in, ended: make(chan struct{})}
	pc := peers.Config{
		Self: peers.Identity{
			Application: in.app.topology.Application(), Cluster: in.clusterID, Instance: in.dir.Instance(), Incarnation: uint64(in.incarnation),
		},
		Logger: log, Fence: w.fence, Fenced: in.self.Gone, Over: in.self.Over, Progress: w.progress, Live: w.live,
	}
	var err error
	if pc.Listener, err = in.listenForPeers(); err != nil {
		return nil, err
	}
	if network := cfg.peerNetwork; network.dial != nil {
		pc.Dial = func(ctx context.Context, address string) (net.Conn, error) { return network.dial(ctx, "tcp", address) }
	}
	if pc.Listener != nil {
		pc.Address, err = advertised(cfg.Peers.Advertise, pc.Listener.Addr())
		if err == nil {
			pc.Security, err = cfg.Peers.watchSecurity(log)
		}
		if err != nil {
			return nil, errors.Join(err, pc.Listener.Close())
		}
		in.self.SetAddress(pc.Address)
		log.Info("peers connect with this instance", "address", pc.Address, "incarnation", in.incarnation)
	}
	if w.peers, err = peers.New(pc); err != nil {
		return nil, &ConfigError{"Peers", err.Error()}
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	w.queries, w.others = newPeerQueries(in.app, w.peers), report.NewInstances(w.askReport)
	in.app.setWatch(w, pc.Address)
	go func() {
		defer close(w.ended)
		w.peers.Run(ctx)
	}()
	return w, nil
}

// listenForPeers returns nil without peers.
func (in *instance) listenForPeers() (l net.Listener, err error) {
	cfg, log := in.app.cfg, in.app.log
	switch listen := cfg.peersListen(); {
	case listen == PeersOff:
		log.Info("no peers: the death of this instance will be noticed by the session timeout", "session_timeout", cfg.SessionTimeout)
		return nil, nil
	case cfg.peerNetwork.listen != nil:
		l, err = cfg.peerNetwork.listen()
	default:
		l, err = net.Listen("tcp", listen)
	}
	switch {
	case err == nil:
		return l, nil
	case cfg.Peers.Listen == "": // a default must not keep an instance from its work
		log.Warn("no peers: listening for them has failed; the death of this instance will be noticed by the session timeout", "error", err)
		return nil, nil
	}
	return nil, &ConfigError{"Peers.Listen", err.Error()}
}

// close ends the watching.
func (w *watch) close() {
	w.in.app.endWatch()
	w.others.Close()
	w.stop()
	<-w.ended
	w.queries.close()
}

// goodbyeMax bounds the wait for peers that do not hear a goodbye.
const goodbyeMax = time.Second

// goodbye tells the peers that this process ends in order.
func (w *watch) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeMax)
	defer cancel()
	if err := w.peers.Goodbye(ctx); err != nil {
		w.in.app.log.Info("a peer may take the end of this instance for a death", "error", err)
	}
}

// planned tells the members of a new plan, and keeps it.
func (w *watch) planned(plan assign.Plan) {
	w.plan.Store(&plan)
	var members []peers.Member
	for _, e := range plan.Entries {
		members = append(members, peers.Member{Instance: e.Member, Address: e.Address})
	}
	if len(members) > 0 { // else the plan could not be read
		w.peers.SetMembers(members)
	}
}

// over tells the peers that this instance has done its part of the plan.
func (w *watch) over() {
	if plan := w.plan.Load(); plan != nil {
		w.peers.Over(plan.ID)
	}
}

// used tells the peers the transactional ids of this process.
func (w *watch) used(ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids = ids
	w.tell()
}

// joined tells the peers the member id of this process. It does nothing if they know it.
func (w *watch) joined(member string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if member != w.member {
		w.member = member
		w.tell()
	}
}

// tell tells the peers the identity of this process; the caller holds mu.
func (w *watch) tell() {
	if err := w.peers.SetSelf(w.member, w.ids); err != nil {
		w.in.app.log.Warn("peers are not told all transactional ids of this instance, and cannot end all of its transactions", "error", err)
	}
}

// fence ends the transactions of an instance that is taken for dead, and removes its member, so
// that the group gives its tasks to others (protocol rules 13.4 to 13.6). It is called on a
// goroutine of package peers.
func (w *watch) fence(ctx context.Context, s peers.Suspect) error {
	prefix := broker.InstancePrefix(w.in.app.topology.Application(), s.Instance)
	for _, id := range s.TransactionalIDs {
		if !strings.HasPrefix(id, prefix) {
			return fmt.Errorf("instance %q has told a transactional id that does not begin with %s", s.Instance, prefix)
		}
	}
	// Neither waits for the other: one transaction whose markers cannot be written must not keep
	// the group waiting.
	var ended error
	var ending sync.WaitGroup
	ending.Go(func() {
		w.in.hangwatch.NoteDead(ctx, s.TransactionalIDs...) // what they say goes with the fencing
		defer w.in.hangwatch.LookSoon()
		ended = w.in.cluster.EndTransactions(ctx, w.in.app.cfg.TransactionTimeout, s.TransactionalIDs...)
	})
	var removed bool
	var err error
	if s.MemberID != "" {
		removed, err = w.in.cluster.LeaveGroup(ctx, s.MemberID, s.Instance)
	}
	if removed {
		w.in.self.Gone(s.Instance)
	}
	ending.Wait()
	if err = errors.Join(ended, err); err != nil {
		return err
	}
	if !removed {
		w.in.app.log.Info("the member of a fenced peer is not in the group any more, or is another process's", "instance", s.Instance)
	}
	w.in.app.metrics.PeerFenced()
	return nil
}

const (
	// lookTime is how long the brokers are watched for progress of a suspect. It gives a sign of
	// life with each heartbeat of peers.
	lookTime = time.Second
	// lookPause is the time between two looks.
	lookPause = 100 * time.Millisecond
)

// progress reports whether the coordinators see a suspect make progress: one of its transactional
// ids changes, or it gives a sign of life.
func (w *watch) progress(ctx context.Context, s peers.Suspect) (bool, error) {
	ids := append(slices.Clone(s.TransactionalIDs), broker.LiveID(w.in.app.topology.Application(), s.Instance))
	before, err := w.in.cluster.Transactions(ctx, ids...)
	if err != nil {
		return false, err
	}
	for end := time.Now().Add(lookTime); time.Now().Before(end); {
		if err := backoff.Sleep(ctx, lookPause); err != nil {
			return false, err
		}
		now, err := w.in.cluster.Transactions(ctx, ids...)
		if err != nil || !maps.Equal(before, now) {
			return err == nil, err
		}
	}
	return false, nil
}

// live gives a sign of life: the epoch of a transactional id that is for nothing else changes. It
// is called on a goroutine of package peers.
func (w *watch) live(ctx context.Context) {
	cfg := w.in.app.cfg
	if brokenLive(cfg.failpoints) {
		return
	}
	err := w.in.cluster.EndTransactions(ctx, cfg.TransactionTimeout, broker.LiveID(w.in.app.topology.Application(), w.in.dir.Instance()))
	if err != nil && !w.mute && ctx.Err() == nil {
		w.in.app.log.Warn("the brokers cannot be shown that this instance lives; a peer that does not hear it may fence it", "error", err)
	}
	w.mute = err != nil
}

// PeerStatus is another instance of the application, as this one sees it.
type PeerStatus struct {
	Instance string `json:"instance"`
	// Address is where it is dialled, empty if it has told none.
	Address   string `json:"address,omitempty"`
	Connected bool   `json:"connected"`
	// Why says why it is not connected.
	Why string `json:"why,omitempty"`
	// Suspicion says how far the suspicion has come that it is dead; empty if there is none.
	Suspicion string `json:"suspicion,omitempty"`
	// FencedInVain is how often it was fenced lately although it lived.
	FencedInVain int `json:"fenced_in_vain,omitempty"`
}

// status returns the peers that this instance watches.
func (w *watch) status() []PeerStatus {
	var out []PeerStatus
	for _, p := range w.peers.Status().Peers {
		if p.Watched {
			out = append(out, PeerStatus{p.Instance, p.Address, p.Connected, p.Why, p.Suspicion, p.FencedInVain})
		}
	}
	return out
}
