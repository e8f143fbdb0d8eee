package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn"
)

// The faults. A victim has at most one thing done to it at a time.
const (
	Kill        = "kill"         // SIGKILL, comes back on what the disk has
	KillLost    = "kill lost"    // SIGKILL, comes back with an empty directory
	KillAt      = "kill at"      // SIGKILL at a failpoint
	Fail        = "fail"         // a failpoint gives a request an unknown outcome or a refusal
	Hang        = "hang"         // a failpoint takes its time
	Freeze      = "freeze"       // nothing arrives for longer than the session, then everything
	Stop        = "stop"         // leaves the group, comes back
	KillStop    = "kill in stop" // SIGKILL while it leaves the group
	DiskFull    = "disk full"    // for a while
	Cut         = "cut"          // its connections are reset
	NetworkDown = "network down" // and no new one is made for a while
	Block       = "block"        // one broker is out of reach for a while
	LoseReply   = "lose reply"   // of one request: the broker has acted
	LoseRequest = "lose request" // one request, with its connection
	LateRequest = "late request" // one request arrives when its sender has given up
	LateCommit  = "late commit"  // several EndTxn requests arrive late
	Weather     = "weather"      // latency, and connections that break
	BrokerStop  = "broker stop"  // a broker is away for a while
	Leaders     = "leaders"      // move to other brokers
	Coordinator = "coordinators" // move to other brokers

	PeersApart  = "peers apart"  // nothing arrives from one instance at another one, or nor the other way round, for a while
	PeersFlap   = "peers flap"   // the same again and again, every few seconds
	FalseFence  = "false fence"  // an instance fences another one that lives
	AllFence    = "all fence"    // all others fence an instance that lives, at the same moment
	KillFencer  = "kill fencer"  // SIGKILL of an instance, and at nearly the same time of one that fences it
	LateRemoval = "late removal" // a request to remove a member arrives late
)

// FencedByPeer counts the instances that a peer took for dead, and FencedInVain those of them that
// were not, among the faults of a [Result].
const (
	FencedByPeer = "fenced by a peer"
	FencedInVain = "fenced in vain"
)

// Copied counts the looks at positions of copies, among the faults of a [Result].
const Copied = "looks at copies"

// Refused counts the writes that a full disk has refused, among the faults of a [Result].
const Refused = "write refused"

// weighted lists the faults as often as they are to come.
var weighted = []string{
	Kill, Kill, Kill, Kill, KillLost, Freeze, Freeze, Stop, Stop, KillStop, DiskFull, Cut, Cut, NetworkDown, Block, LoseReply, LoseReply, LoseReply,
	LoseRequest, LateRequest, LateRequest, LateCommit, Weather, Weather, BrokerStop, Leaders, Coordinator,
}

// atFailpoints are the faults that need them, as often as they are to come.
var atFailpoints = []string{KillAt, KillAt, KillAt, KillAt, KillAt, Fail, Fail, Fail, Hang}

// amongPeers are the faults that need peers, as often as they are to come.
var amongPeers = []string{PeersApart, PeersApart, PeersFlap, FalseFence, FalseFence, AllFence, KillFencer, LateRemoval}

// AllFaults returns the names of all faults.
func AllFaults() []string {
	all := slices.Concat(weighted, atFailpoints, amongPeers)
	slices.Sort(all)
	return slices.Compact(all)
}

const (
	calmShare = 0.2
	periodMax = 8 * time.Second
	// session is txn's default session timeout.
	session = 45 * time.Second
)

// nemesis acts in one goroutine. Later actions, such as the end of a fault, are in its timer queue.
type nemesis struct {
	r      *run
	rng    *rand.Rand
	faults []string
	timers []timer
	busy   map[string]bool
	// away counts the brokers that are stopped, back is when the last one came back.
	away int
	back time.Time
	// lateRemovals counts the rules that delay every LeaveGroup.
	lateRemovals int
}

// timer is an action with its time.
type timer struct {
	at time.Time
	do func() error
}

func newNemesis(r *run) *nemesis {
	n := &nemesis{r: r, rng: rand.New(rand.NewPCG(r.cfg.Seed, 2)), faults: r.cfg.Faults, busy: map[string]bool{}}
	if n.faults == nil {
		n.faults = weighted
		if r.cfg.Failpoints {
			n.faults = slices.Concat(n.faults, atFailpoints)
		}
		if r.cfg.Peers {
			n.faults = slices.Concat(n.faults, amongPeers)
		}
	}
	return n
}

// run acts for a while, and returns when everything is healed.
func (n *nemesis) run(ctx context.Context, d time.Duration) {
	until := time.Now().Add(d)
	for ctx.Err() == nil && time.Now().Before(until) {
		if len(n.faults) > 0 && n.rng.Float64() >= calmShare {
			for range 1 + n.rng.IntN(2) {
				n.act(n.faults[n.rng.IntN(len(n.faults))])
			}
		}
		n.pass(ctx, time.Now().Add(time.Duration(n.rng.Int64N(int64(periodMax)))))
	}
	for _, i := range n.r.instances {
		if i.life != nil {
			i.life.armed.Store(nil)
		}
	}
	for ctx.Err() == nil && (len(n.timers) > 0 || n.waiting()) {
		n.pass(ctx, n.timers[0].at)
	}
	n.r.network.SetWeather(virtual.Weather{})
}

// waiting kills an instance that still waits at a failpoint for it, and reports whether there was
// one.
func (n *nemesis) waiting() bool {
	synctest.Wait()
	select {
	case l := <-n.r.strikes:
		n.struck(l)
		return len(n.timers) > 0
	default:
		return false
	}
}

// later adds an action to the timer queue.
func (n *nemesis) later(after time.Duration, do func() error) {
	n.timers = append(n.timers, timer{time.Now().Add(after), do})
	slices.SortStableFunc(n.timers, func(a, b timer) int { return a.at.Compare(b.at) })
}

// pass waits until a moment, and does what is due before it.
func (n *nemesis) pass(ctx context.Context, until time.Time) {
	for ctx.Err() == nil {
		n.watch()
		next := until
		if len(n.timers) > 0 && n.timers[0].at.Before(next) {
			next = n.timers[0].at
		}
		next = earlier(next, time.Now().Add(time.Second)) // to look after the instances
		select {
		case <-ctx.Done():
			return
		case l := <-n.r.strikes:
			n.struck(l)
			continue
		case <-time.After(time.Until(next)):
		}
		for len(n.timers) > 0 && !n.timers[0].at.After(time.Now()) {
			due := n.timers[0]
			n.timers = n.timers[1:]
			n.check(due.do())
		}
		if !time.Now().Before(until) {
			return
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// watch starts instances again that have ended by themselves, as a supervisor does.
func (n *nemesis) watch() {
	for _, i := range n.r.instances {
		if i.life == nil || n.busy[i.name] {
			continue
		}
		if err := i.life.alive(); err != nil {
			n.r.unasked(i, err)
			continue
		}
		n.r.look(i.life)
	}
}

// look finds tasks that have stopped. A full disk stops one until there is space; nothing else may,
// but a failpoint.
func (r *run) look(l *life) {
	status := l.app.Status()
	l.ran = l.ran || status.State == txn.Joining || status.State == txn.Running
	for _, task := range status.Tasks {
		if task.State != txn.TaskStopped || diskFull(task.Reason) {
			continue
		}
		if mayEnd[l.struck()] && strings.Contains(task.Reason, errUnknown.Error()) {
			continue
		}
		r.found("task %s of %s has stopped: %s", task.ID, l.name, task.Reason)
	}
}

// diskFull says whether a full disk is the reason of a stopped task.
func diskFull(reason string) bool { return strings.Contains(reason, "the disk is full") }

// lateExit is how long after a broker is back an instance may end because of its absence: txn waits
// a minute for brokers at its start.
const lateExit = 2 * time.Minute

// mayEnd are the failpoints where an error ends an application: what is asked for at a start, and
// what a database did not take.
var mayEnd = map[string]bool{
	"init-before": true, "init-after": true, "join-before": true, "apply-before": true, "apply-after": true, "positions-write": true,
}

// reachable says whether the cluster has been whole for so long that no end of an instance can be
// because of it.
func (n *nemesis) reachable() bool { return n.away == 0 && time.Since(n.back) > lateExit }

// unasked starts an instance again that has ended by itself. That is a finding unless the cluster
// was out of reach.
func (r *run) unasked(i *instance, err error) {
	l := i.life
	i.life = nil
	r.network.Trace().Logf(l.name, "%v", err)
	l.cancel()
	l.release()
	n := r.nemesis
	disturbed := !n.reachable() || time.Since(l.disturbed) < lateExit
	switch {
	case l.failedAt(err):
		r.count("ended by a failpoint")
	case errors.Is(err, kerr.FencedInstanceID):
		r.count("fenced") // a request to join that its former self had sent arrived late
	case !l.ran && disturbed:
		r.count("gave up") // no broker answered it at its start
	default:
		r.found("%v", err)
	}
	n.check(i.start())
}

func (n *nemesis) check(err error) {
	if err != nil {
		n.r.found("the nemesis: %v", err)
	}
}

// victim returns an instance that runs and is not busy, nil if there is none.
func (n *nemesis) victim() *instance {
	var free []*instance
	for _, i := range n.r.instances {
		if i.life != nil && !n.busy[i.name] && i.life.alive() == nil {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return nil
	}
	return free[n.rng.IntN(len(free))]
}

// between draws a time, most of them short.
func (n *nemesis) between(low, high time.Duration) time.Duration {
	f := n.rng.Float64()
	return low + time.Duration(f*f*float64(high-low))
}

// act does one fault, if there is a victim for it.
func (n *nemesis) act(fault string) {
	switch fault {
	case Weather, BrokerStop, Leaders, Coordinator:
		n.actOnBrokers(fault)
		return
	}
	i := n.victim()
	if i == nil {
		return
	}
	switch fault {
	case PeersApart, PeersFlap, FalseFence, AllFence, KillFencer, LateRemoval:
		n.actOnPeers(fault, i)
		return
	}
	switch fault {
	case LoseReply, LoseRequest, LateRequest, LateCommit, KillAt, Fail, Hang, KillStop: // counted when they have happened
	default:
		n.r.count(fault)
	}
	host := i.life.host
	switch fault {
	case Freeze, Cut, NetworkDown, Block, LoseReply, LoseRequest, LateRequest, LateCommit, Fail, Hang:
		i.life.disturbed = time.Now().Add(2 * session) // it is healed by then
	}
	switch fault {
	case Kill, KillLost:
		n.kill(i, fault == KillLost)
	case Freeze:
		n.busy[i.name] = true
		host.Stall()
		n.later(n.between(time.Second, 2*session), func() error { n.busy[i.name] = false; host.Resume(); return nil })
	case Stop:
		n.judgeStop(i.life, i.stop)
		n.later(n.between(0, session), i.start)
	case KillStop:
		n.judgeStop(i.life, func() error { return n.killInStop(i) })
	case DiskFull:
		n.r.event("disk full", i.name)
		i.disk.SetFree(0)
		n.later(n.between(time.Second, 2*time.Minute), func() error {
			n.r.event("disk has space", i.name)
			i.disk.SetFree(diskBytes)
			return nil
		})
	case Cut:
		host.Cut()
	case NetworkDown:
		n.busy[i.name] = true
		host.Down()
		n.later(n.between(0, 2*session), func() error { n.busy[i.name] = false; host.Up(); return nil })
	case Block:
		broker := n.r.kafka.Brokers()[n.rng.IntN(n.r.brokers)]
		name := i.life.name
		n.r.network.Block(name, broker)
		n.later(n.between(0, session), func() error { n.r.network.Unblock(name, broker); return nil })
	case LoseReply, LoseRequest, LateRequest, LateCommit:
		n.rule(i, fault)
	case KillAt, Fail, Hang:
		n.strike(i, fault)
	default:
		n.check(fmt.Errorf("there is no fault %q", fault))
	}
}

// flapMax is the longest time between two changes of a link that flaps.
const flapMax = 5 * time.Second

// actOnPeers does what is about an instance and another one.
func (n *nemesis) actOnPeers(fault string, i *instance) {
	n.busy[i.name] = true
	other := n.victim()
	delete(n.busy, i.name)
	if other == nil {
		return
	}
	from, to := i.life.name, other.life.name
	oneWay := n.rng.IntN(2) == 0
	apart := func(is bool) error {
		change := n.r.network.Unblock
		if is {
			change = n.r.network.Block
		}
		change(from, to)
		if !oneWay {
			change(to, from)
		}
		return nil
	}
	n.r.count(fault)
	switch fault {
	case PeersApart:
		n.check(apart(true))
		n.later(n.between(time.Second, session), func() error { return apart(false) })
	case PeersFlap:
		for at := time.Duration(0); at < time.Minute; {
			n.later(at, func() error { return apart(true) })
			at += time.Duration(n.rng.Int64N(int64(flapMax)))
			n.later(at, func() error { return apart(false) })
			at += time.Duration(n.rng.Int64N(int64(flapMax)))
		}
	case FalseFence:
		n.fence(i, other)
	case AllFence:
		for _, fencer := range n.r.instances {
			if fencer != other && fencer.life != nil && fencer.life.alive() == nil {
				n.fence(fencer, other)
			}
		}
	case KillFencer:
		n.kill(i, false)
		n.later(n.between(0, 200*time.Millisecond), func() error {
			if other.life != nil && other.life.name == to && !n.busy[other.name] {
				n.kill(other, false)
			}
			return nil
		})
	case LateRemoval:
		rule := n.r.network.Add(proxy.Match{Key: int16(kmsg.LeaveGroup), Direction: proxy.ToBroker},
			proxy.Delay(n.between(100*time.Millisecond, 20*time.Second)))
		n.lateRemovals++
		n.later(session, func() error { rule.Lift(); n.lateRemovals--; return nil })
	}
}

// fence has one instance fence another one. It does not wait.
func (n *nemesis) fence(by, victim *instance) {
	fencer, to := by.life, victim.life.name
	n.r.event("fences "+to, fencer.name)
	n.r.dead.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), openMax)
		defer cancel()
		if err := fence(ctx, fencer.app, victim.name); err != nil {
			n.r.network.Trace().Logf(fencer.name, "fencing %s has failed: %v", to, err)
		}
	})
}

// kill ends a life, looks at what it has left, and begins the next one: at once, or after others
// have taken its tasks.
func (n *nemesis) kill(i *instance, lost bool) {
	copied, err := i.kill(n.rng.IntN(2) == 0)
	if err != nil {
		n.check(err)
		return
	}
	if copied != "" {
		n.r.dump(copied, "of "+i.name+" after a kill")
	}
	if lost {
		i.lose()
	}
	after := n.between(0, 2*session)
	if n.rng.IntN(2) == 0 {
		after = 0
	}
	n.later(after, i.start)
}

// judgeStop ends a life with stop. It is a finding if that gives an error, unless a fault explains
// it.
func (n *nemesis) judgeStop(l *life, stop func() error) {
	disturbed := !n.reachable() || time.Since(l.disturbed) < lateExit || n.busy[Weather]
	late := n.lateRemovals > 0 // an instance waits 10 s for the answer to its own LeaveGroup
	if err := stop(); err != nil && !disturbed && !diskFull(err.Error()) && !l.failedAt(err) && !(late && leaving(err)) {
		n.r.found("%v", err)
	}
}

// leaving says whether an error is that an instance could not leave its group.
func leaving(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "leaving group")
}

// failedAt says whether an error is that of a failpoint where errors end an application.
func (l *life) failedAt(err error) bool {
	return errUnknown != nil && errors.Is(err, errUnknown) && mayEnd[l.struck()]
}

// killInStop ends a life in order, and kills it before it has ended. It returns an error if the end
// came first and was not in order.
func (n *nemesis) killInStop(i *instance) error {
	l := i.life
	l.cancel()
	select {
	case <-l.ended:
		n.later(0, i.start)
		return i.stop()
	case <-time.After(n.between(0, time.Second)):
	}
	n.r.count(KillStop)
	n.kill(i, false)
	return nil
}

// struck kills an instance that waits at a failpoint for it.
func (n *nemesis) struck(l *life) {
	if l.instance.life != l {
		return // it was ended otherwise meanwhile, and released
	}
	n.kill(l.instance, n.rng.IntN(6) == 0)
}

// keys are the requests that are lost and delayed, as often as they are to be.
var keys = []kmsg.Key{
	kmsg.EndTxn, kmsg.EndTxn, kmsg.EndTxn, kmsg.TxnOffsetCommit, kmsg.TxnOffsetCommit, kmsg.Produce, kmsg.Produce,
	kmsg.InitProducerID, kmsg.OffsetFetch, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.FindCoordinator, kmsg.Fetch,
	kmsg.ListOffsets, kmsg.DeleteRecords, kmsg.LeaveGroup,
}

// rule loses or delays one frame of an instance.
func (n *nemesis) rule(i *instance, fault string) {
	key := keys[n.rng.IntN(len(keys))]
	m := proxy.Match{Key: int16(key), Direction: proxy.ToBroker, Skip: n.rng.IntN(2), Limit: 1}
	action := proxy.Cut()
	switch fault {
	case LoseReply:
		m.Direction = proxy.ToClient
		if n.rng.IntN(3) == 0 {
			action = proxy.Drop()
		}
	case LateRequest:
		action = proxy.Delay(n.between(time.Second, time.Minute))
	case LateCommit:
		m.Key, m.Limit, action = proxy.KeyEndTxn, 1+n.rng.IntN(20), proxy.Delay(n.between(100*time.Millisecond, 30*time.Second))
	}
	rule := i.life.host.Add(m, action)
	n.later(session, func() error {
		rule.Lift()
		if rule.Counts().Matched > 0 {
			n.r.count(fault)
		}
		return nil
	})
}

// strike arms a failpoint.
func (n *nemesis) strike(i *instance, fault string) {
	all := points()
	if len(all) == 0 {
		n.check(errors.New("there are no failpoints in this build"))
		return
	}
	s := &strike{fault: fault, point: all[n.rng.IntN(len(all))], skip: n.rng.IntN(4)}
	switch fault {
	case KillAt:
		s.action = actKill
	case Fail:
		s.action = []string{actError, actRefuse}[n.rng.IntN(2)]
	case Hang:
		s.action, s.wait = []string{actDelay, actStall}[n.rng.IntN(2)], n.between(time.Second, 2*time.Minute)
	}
	i.life.armed.Store(s)
}

// actOnBrokers does what is not about an instance.
func (n *nemesis) actOnBrokers(fault string) {
	if n.busy[fault] {
		return
	}
	n.r.count(fault)
	switch fault {
	case Weather:
		n.busy[fault] = true
		n.r.network.SetWeather(virtual.Weather{LatencyMax: n.between(0, 300*time.Millisecond), CutShare: 0.005 * n.rng.Float64()})
		n.later(n.between(time.Second, time.Minute), func() error {
			n.busy[fault] = false
			n.r.network.SetWeather(virtual.Weather{})
			return nil
		})
	case BrokerStop:
		n.busy[fault] = true
		broker := n.rng.IntN(n.r.brokers)
		n.away++
		n.r.kafka.Stop(broker)
		n.later(n.between(time.Second, 2*time.Minute), func() error {
			n.busy[fault] = false
			n.away--
			n.back = time.Now()
			n.r.kafka.Start(broker)
			return nil
		})
	case Leaders:
		n.r.kafka.MoveLeaders()
	case Coordinator:
		n.r.kafka.MoveCoordinators()
	}
}
