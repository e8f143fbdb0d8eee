package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/testapp"
)

// nemesis does one or two things in most periods, and nothing in some. Every victim has at most one
// thing done to it at a time.
type nemesis struct {
	cluster   *cluster.Cluster
	processes []*testapp.Process
	history   *testapp.Recorder
	accounts  testapp.Accounts
	session   time.Duration
	faults    []string
	dumpShare float64
	rng       *rand.Rand // of the loop alone
	log       func(string, ...any)

	work sync.WaitGroup
	mu   struct {
		sync.Mutex
		busy map[string]bool
		// frozen are those that a freeze of their own holds.
		frozen  map[*testapp.Process]bool
		down    int // bounces that have begun
		bounced int // and ended
		back    time.Time
		counts  faultCounts
		failed  []error
	}
}

// faultCounts are the numbers of what the nemesis did.
type faultCounts struct {
	Kills, Freezes, Stops, Remains, Joins, BrokerKills, BrokerStops int
	// Dumps are the stores that were read after kills. Unasked are instances that ended by
	// themselves. GaveUp are those that did so while the broker was away, which is no finding: a
	// supervisor restarts them, and so does the soak.
	Dumps, Unasked, GaveUp int
}

// The faults. Where two victims of one kind are free, the seed chooses.
const (
	killFault       = "kill"
	freezeFault     = "freeze"
	stopFault       = "stop"   // SIGTERM, leaves the group, comes back
	remainFault     = "remain" // SIGTERM, stays in the group, comes back
	joinFault       = "join"   // the spare instance starts, or leaves if it is there
	brokerKillFault = "broker kill"
	brokerStopFault = "broker stop"
)

// weighted lists the faults as often as they are to come.
var weighted = []string{
	killFault, killFault, killFault, killFault, freezeFault, freezeFault, stopFault, remainFault, remainFault, joinFault,
	brokerKillFault, brokerStopFault,
}

const (
	calmShare = 0.25
	periodMin = 3 * time.Second
	periodMax = 9 * time.Second
	broker    = "broker"
)

// run goes on until ctx ends, and returns when everything that it did is healed.
func (n *nemesis) run(ctx context.Context) {
	for ctx.Err() == nil {
		period := between(n.rng, periodMin, periodMax)
		if n.rng.Float64() >= calmShare && len(n.faults) > 0 {
			for range 1 + n.rng.IntN(2) {
				n.strike(ctx, n.faults[n.rng.IntN(len(n.faults))])
			}
		}
		n.watch(ctx, period)
	}
	n.work.Wait()
	for _, p := range n.processes { // they are not watched from here on
		if err := p.Alive(); err != nil {
			n.unasked(ctx, p, err)
		}
	}
}

// watch looks after the idle instances for a while: one that has ended by itself is a finding, and
// is started again.
func (n *nemesis) watch(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	over := time.NewTimer(period)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-over.C:
			return
		case <-tick.C:
		}
		for _, p := range n.processes {
			if !n.take(p.Flags.Instance) {
				continue
			}
			err := p.Alive()
			if err == nil {
				n.release(p.Flags.Instance)
				continue
			}
			n.work.Go(func() {
				defer n.release(p.Flags.Instance)
				n.unasked(ctx, p, err)
			})
		}
	}
}

// lateExit is how long after the broker is back an instance may end because of its absence.
const lateExit = 5 * time.Second

// unasked starts an instance again that has ended by itself, after a second, as supervisors do.
func (n *nemesis) unasked(ctx context.Context, p *testapp.Process, err error) {
	n.history.Fault("ended by itself", p.Flags.Instance)
	n.mu.Lock()
	away := n.mu.down > n.mu.bounced || time.Since(n.mu.back) < lateExit
	n.mu.Unlock()
	if away {
		n.count(func(f *faultCounts) { f.GaveUp++ })
	} else {
		n.count(func(f *faultCounts) { f.Unasked++ })
		n.fail(err)
	}
	sleep(ctx, time.Second)
	if err := p.Start(); err != nil {
		n.fail(err)
	}
}

// strike begins a fault if there is a victim for it.
func (n *nemesis) strike(ctx context.Context, fault string) {
	delay := between(n.rng, 0, n.session*3/2)
	if fault == brokerKillFault || fault == brokerStopFault {
		if n.take(broker) {
			n.work.Go(func() { defer n.release(broker); n.bounce(ctx, fault, delay/4) })
		}
		return
	}
	spare := len(n.processes) - 1
	victim := n.processes[spare]
	if fault != joinFault {
		victim = n.processes[n.rng.IntN(spare)]
	}
	dumped := n.rng.Float64() < n.dumpShare
	if !n.take(victim.Flags.Instance) {
		return
	}
	n.history.Fault(fault, victim.Flags.Instance)
	n.log("%s %s", fault, victim.Flags.Instance)
	n.work.Go(func() {
		defer n.release(victim.Flags.Instance)
		if err := victim.Alive(); err != nil {
			n.unasked(ctx, victim, err)
		}
		if err := n.carryOut(ctx, fault, victim, delay, dumped); err != nil {
			n.fail(fmt.Errorf("%s: %w", fault, err))
		}
	})
}

func (n *nemesis) carryOut(ctx context.Context, fault string, p *testapp.Process, delay time.Duration, dumped bool) error {
	switch fault {
	case killFault:
		n.count(func(f *faultCounts) { f.Kills++ })
		if err := p.Kill(); err != nil {
			return err
		}
		if dumped {
			stores, err := testapp.Dump(n.history, n.accounts, p.Flags.StateDir, "after kill of "+p.Flags.Instance)
			n.count(func(f *faultCounts) { f.Dumps += stores })
			if err != nil {
				n.fail(err)
			}
		}
		sleep(ctx, delay)
		return p.Start()
	case freezeFault:
		n.count(func(f *faultCounts) { f.Freezes++ })
		n.markFrozen(p, true)
		defer n.markFrozen(p, false)
		if err := p.Freeze(); err != nil {
			return err
		}
		sleep(ctx, n.session+delay)
		return p.Thaw()
	case joinFault:
		n.count(func(f *faultCounts) { f.Joins++ })
		if !p.Up() {
			return p.Start()
		}
		return n.stop(p)
	default:
		return n.restart(ctx, fault, p, delay)
	}
}

// restart stops an instance in order and starts it again. Whether it keeps its membership is told
// at its start, so the life after a restart has the setting of the next one.
func (n *nemesis) restart(ctx context.Context, fault string, p *testapp.Process, delay time.Duration) error {
	remains := p.Flags.Remain
	if remains {
		n.count(func(f *faultCounts) { f.Remains++ })
		delay /= 6 // within the session
	} else {
		n.count(func(f *faultCounts) { f.Stops++ })
	}
	if err := n.stop(p); err != nil {
		n.fail(err)
	}
	p.Flags.Remain = fault == remainFault
	sleep(ctx, delay)
	return p.Start()
}

// stop ends an instance in order. While the broker is away nothing can be committed, so that then
// it may say that it failed to.
func (n *nemesis) stop(p *testapp.Process) error {
	n.mu.Lock()
	before := n.mu.down
	away := n.mu.down > n.mu.bounced
	n.mu.Unlock()
	err := p.Stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	if away || n.mu.down > before {
		return nil
	}
	return err
}

// bounce takes the broker down for a while, when no transaction is open, and keeps every instance
// frozen until all partitions have a leader again.
//
// If a single broker of Kafka 4.3.1 ends a transaction while no partition has a leader, the
// transaction loses its markers (the broker logs "likely deleted already"). Its coordinator still
// counts it as complete. Its records stay open, until the next transaction of the
// same producer completes them. A client cannot prevent that.
//
// A broker that starts before its old session has ended has such a moment. With clusterOptions it
// starts later, and gets the partitions of its coordinators in one step with all others. The
// instances stay frozen all the same, because a lost marker looks like a fault of Onceward. Package
// faults and the copy test cover brokers that go down at any moment.
func (n *nemesis) bounce(ctx context.Context, fault string, delay time.Duration) {
	thaw, quiet := n.hush(ctx)
	defer thaw()
	if !quiet {
		return
	}
	n.history.Fault(fault, broker)
	n.log("%s", fault)
	n.mu.Lock()
	n.mu.down++
	n.mu.Unlock()
	down := n.cluster.Kill
	if fault == brokerStopFault {
		n.count(func(f *faultCounts) { f.BrokerStops++ })
		down = n.cluster.Stop
	} else {
		n.count(func(f *faultCounts) { f.BrokerKills++ })
	}
	if err := down(); err != nil {
		n.fail(err)
		return
	}
	sleep(ctx, delay)
	// Healing is not cut short: without a broker there is nothing to judge.
	if err := n.cluster.Resume(context.WithoutCancel(ctx)); err != nil {
		n.fail(err)
	}
	n.history.Fault("broker back", broker)
	n.mu.Lock()
	n.mu.bounced++
	n.mu.back = time.Now()
	n.mu.Unlock()
}

// hush freezes every instance that runs, at a moment when no transaction is open, and reports
// whether it has found one. The function that it returns lets them go on, once; those that another
// fault has frozen stay so.
func (n *nemesis) hush(ctx context.Context) (thaw func(), quiet bool) {
	for range hushTries {
		thaw = n.freezeAll()
		if n.quiet(ctx) {
			return thaw, true
		}
		thaw()
		sleep(ctx, 50*time.Millisecond)
	}
	return thaw, false // a victim of another fault has left one open, and has not come back yet
}

const hushTries = 40

func (n *nemesis) freezeAll() (thaw func()) {
	var frozen []*testapp.Process
	for _, p := range n.processes {
		n.mu.Lock()
		already := n.mu.frozen[p]
		n.mu.Unlock()
		if !already && p.Signal(syscall.SIGSTOP) {
			frozen = append(frozen, p)
		}
	}
	return sync.OnceFunc(func() {
		for _, p := range frozen {
			p.Signal(syscall.SIGCONT) // one that is gone meanwhile needs no thaw
		}
	})
}

// quiet waits for markers that are under way, and reports whether no transaction is left.
func (n *nemesis) quiet(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	for {
		open, err := n.cluster.OpenTransactions(ctx, "")
		if err != nil || len(open) > 0 {
			return false
		}
		ending, err := n.cluster.EndingTransactions(ctx, "")
		if err != nil {
			return false
		}
		if len(ending) == 0 {
			return true
		}
		sleep(ctx, 10*time.Millisecond)
	}
}

// take makes a victim busy; it reports false if it is already.
func (n *nemesis) take(victim string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.busy == nil {
		n.mu.busy = map[string]bool{}
	}
	if n.mu.busy[victim] {
		return false
	}
	n.mu.busy[victim] = true
	return true
}

func (n *nemesis) release(victim string) {
	n.mu.Lock()
	n.mu.busy[victim] = false
	n.mu.Unlock()
}

func (n *nemesis) markFrozen(p *testapp.Process, frozen bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.frozen == nil {
		n.mu.frozen = map[*testapp.Process]bool{}
	}
	n.mu.frozen[p] = frozen
}

func (n *nemesis) count(add func(*faultCounts)) {
	n.mu.Lock()
	add(&n.mu.counts)
	n.mu.Unlock()
}

// fail keeps what must not have happened; the run goes on.
func (n *nemesis) fail(err error) {
	n.log("FINDING: %v", err)
	n.mu.Lock()
	n.mu.failed = append(n.mu.failed, err)
	n.mu.Unlock()
}

// result is called when run has returned.
func (n *nemesis) result() (faultCounts, []error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.counts, n.mu.failed
}

func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)))
}

// sleep waits for d, or less if ctx ends: then it is time to heal.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
