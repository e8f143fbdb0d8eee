package figures

import (
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
)

var (
	kills = flag.Int("kills", 2, "failures of each kind in TestFailover")
	rate  = flag.Int("rate", 1000, "events per second in TestFailover and TestStandbys")
	state = flag.Int("state", 20_000, "events that TestFailover and TestStandbys put into the state before anything is measured")
)

// brokerDefaults are the defaults that the brokers of other tests do without.
var brokerDefaults = map[string]string{
	"broker.session.timeout.ms":                                   "9000",
	"group.initial.rebalance.delay.ms":                            "3000",
	"log.cleaner.backoff.ms":                                      "15000",
	"offsets.topic.num.partitions":                                "50",
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
	"transaction.state.log.num.partitions":                        "50",
}

const (
	// tenfold is how much more state the scenarios with much state have.
	tenfold = 10
	// growth is how many times the state may grow under load until another application takes its
	// place.
	growth = 3
	// killsWithout bounds the failures without peers: each waits for a session timeout.
	killsWithout = 3
	// frozenFor is beyond the silence bound of peers and the transaction timeout, and below the
	// session timeout.
	frozenFor = transactionDefault + 5*time.Second
	// beforeFailure is how long the load runs before each failure.
	beforeFailure = 5 * time.Second
)

// failure is what becomes of one instance of a fleet, again and again.
type failure struct {
	name, about string
	instances   int
	brokers     int // one, unless something else is said
	much        bool
	standbys    int
	without     bool // peers
	hosts       bool // each instance has a host of its own
	// strike makes the instance fail. The function that it returns brings it back.
	strike func(f *fleet, victim int) (back func())
	// leastReaders and leastAll are the targets, aimReaders and aimAll what is wanted; zero where
	// there are none.
	leastReaders, aimReaders, leastAll, aimAll time.Duration
}

var failures = []failure{
	{
		name: "two", about: "kill -9 of one of two", instances: 2, strike: kill,
		leastReaders: 500 * time.Millisecond, aimReaders: 100 * time.Millisecond, leastAll: 2 * time.Second, aimAll: 700 * time.Millisecond,
	},
	{
		name: "three", about: "kill -9 of one of three", instances: 3, strike: kill,
		leastReaders: 500 * time.Millisecond, aimReaders: 100 * time.Millisecond, leastAll: 2 * time.Second, aimAll: 700 * time.Millisecond,
	},
	{
		name: "two-much", about: "kill -9 of one of two, ten times the state", instances: 2, strike: kill, much: true,
		leastReaders: 500 * time.Millisecond, aimReaders: 100 * time.Millisecond,
	},
	{
		name: "three-much", about: "kill -9 of one of three, ten times the state", instances: 3, strike: kill, much: true,
		leastReaders: 500 * time.Millisecond, aimReaders: 100 * time.Millisecond,
	},
	{
		name: "two-standby", about: "kill -9 of one of two with a standby, ten times the state", instances: 2, strike: kill, much: true,
		standbys: 1, leastReaders: 500 * time.Millisecond, aimReaders: 100 * time.Millisecond, leastAll: 2 * time.Second, aimAll: 700 * time.Millisecond,
	},
	{
		name: "three-standby", about: "kill -9 of one of three with a standby, ten times the state", instances: 3, strike: kill, much: true,
		standbys: 1, leastReaders: 500 * time.Millisecond, aimReaders: 100 * time.Millisecond, leastAll: 2 * time.Second, aimAll: 700 * time.Millisecond,
	},
	{
		name: "vanished-two", about: "the host of one of two vanishes", instances: 2, strike: vanish, hosts: true,
		leastReaders: 6 * time.Second, aimReaders: 3 * time.Second, leastAll: 6 * time.Second, aimAll: 3 * time.Second,
	},
	{
		name: "vanished-three", about: "the host of one of three vanishes", instances: 3, strike: vanish, hosts: true,
		leastReaders: 6 * time.Second, aimReaders: 3 * time.Second, leastAll: 6 * time.Second, aimAll: 3 * time.Second,
	},
	{
		name: "frozen", about: "one of two is frozen for " + frozenFor.String() + " and comes back", instances: 2, strike: freeze,
	},
	{
		name: "brokers", about: "kill -9 of one of two, three brokers", instances: 2, brokers: 3, strike: kill,
		leastReaders: 500 * time.Millisecond, aimReaders: 100 * time.Millisecond, leastAll: 2 * time.Second, aimAll: 700 * time.Millisecond,
	},
	{
		name: "brokers-standby", about: "kill -9 of one of two with a standby, three brokers", instances: 2, brokers: 3, strike: kill,
		standbys: 1, leastReaders: 500 * time.Millisecond, aimReaders: 100 * time.Millisecond, leastAll: 2 * time.Second, aimAll: 700 * time.Millisecond,
	},
	{
		name: "broker-too", about: "kill -9 of one of two and of one of three brokers", instances: 2, brokers: 3, strike: killWithBroker,
	},
	{name: "two-without", about: "kill -9 of one of two, without peers", instances: 2, strike: kill, without: true},
	{
		name: "vanished-without", about: "the host of one of two vanishes, without peers", instances: 2, strike: vanish, hosts: true,
		without: true,
	},
}

// TestFailover makes instances fail, again and again, on brokers at their own defaults and with the
// timeouts of production. It measures how long readers of the output see nothing, and how long
// partitions stand still. With peers partitions go on long before a session timeout, and in every
// case each event comes once. `make failover` is the full one.
func TestFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	dir := os.Getenv(envFigures)
	for _, s := range failures {
		t.Run(s.name, func(t *testing.T) {
			r := measureFailures(t, s)
			for _, k := range r.Failures {
				// A restore may take its time, and while a broker is away it decides when the group
				// goes on.
				if !s.without && s.name != "broker-too" && k.Assigned >= sessionDefault/2 {
					t.Errorf("the others had all tasks after %s: peers did nothing", k.Assigned)
				}
			}
			report := failoverReport{r}
			if dir != "" {
				var err error
				if report, err = failoversIn(dir); err == nil {
					report = report.with(r)
					err = report.write(dir)
				}
				if err != nil {
					t.Error(err)
				}
			}
			t.Logf("\n%s", report.markdown())
		})
	}
}

// measureFailures measures all failures of a kind.
func measureFailures(t *testing.T, s failure) failoverResult {
	settings := latency.Settings{SessionTimeout: sessionDefault, TransactionTimeout: transactionDefault, Standbys: s.standbys}
	o := cluster.Options{Settings: brokerDefaults, Brokers: s.brokers}
	p := fleetPlan{instances: s.instances, partitions: partitions, rate: *rate, state: *state}
	if s.instances == 3 {
		p.partitions = 2 * 3
	}
	if !s.without {
		settings.Peers = "127.0.0.1:0"
	}
	if s.hosts {
		l := newLAN(t, s.instances)
		p.hosts, o.Host = l.hosts, l.address()
		settings.PeersSecret = filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(settings.PeersSecret, []byte("all instances of the test"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := *kills
	if s.without {
		settings.PeersSecret, n = "", min(n, killsWithout)
	}
	if s.much {
		p.state *= tenfold
	}
	p.common = settings
	c := cluster.OwnWith(t, cluster.KindKafka, o)
	r := failoverResult{
		Name: s.name, About: s.about, Host: latency.Host(), Time: time.Now().UTC(), Rate: *rate, State: p.state,
		Targets: targets{s.leastReaders, s.aimReaders, s.leastAll, s.aimAll},
	}
	var f *fleet
	for i := range n {
		if f == nil {
			f = newFleet(t, c, p)
		}
		f.run(beforeFailure)
		k := f.fail(s, i%s.instances)
		t.Logf("%s: %s", s.name, k)
		r.Failures = append(r.Failures, k)
		if last := i == n-1; last || f.load.Producer.Sent() > uint64(growth*p.state) {
			sent, found := f.finish()
			r.Events += sent
			r.Lost, r.Doubled, r.Wrong = r.Lost+found.Lost, r.Doubled+found.Doubled, r.Wrong+found.Wrong
			f = nil
		}
	}
	return r
}

// fail makes an instance fail, measures what follows, and brings it back.
func (f *fleet) fail(s failure, victim int) failoverFailure {
	f.t.Helper()
	others := slices.Delete(slices.Clone(f.instances), victim, victim+1)
	lanes, _ := f.running(f.instances[victim])
	before, logs := f.restored(others), f.endsOfLogs(others)
	r := failoverFailure{Events: f.load.Producer.Sent(), Load: latency.LoadAverage()}
	struck := time.Now()
	back := s.strike(f, victim)
	// Records that are due from now on were not sent yet, so the victim has no part in them.
	after := time.Now()
	r.Assigned, r.Running = f.watchTasks(others, struck)
	_, all := bounds(f.flowing(f.allLanes(), after))
	ctx, cancel := f.wait()
	defer cancel()
	outputs, err := f.load.Reader.AwaitOutputs(ctx, after)
	f.must(err)
	_, seen := bounds(outputs)
	end := all
	if seen.After(end) {
		end = seen
	}
	r.All, r.Restored = all.Sub(struck), f.restored(others)-before
	r.Readers = slices.Max(slices.Collect(maps.Values(f.load.Reader.Silences(struck, end))))
	for lane, pause := range f.load.Reader.Pauses(struck, end) {
		if !slices.Contains(lanes, lane) {
			r.Others = max(r.Others, pause)
		}
	}
	r.Suspected, r.Fencing, r.Fenced = f.trace(logs, struck)
	back()
	f.settle()
	return r
}

// kill kills the instance. It comes back without state, as if on another host. So the next owner of
// its partitions has none of their state either.
func kill(f *fleet, victim int) (back func()) {
	f.must(f.instances[victim].Kill())
	return func() { f.replace(victim) }
}

// replace starts an instance that is down, without its state.
func (f *fleet) replace(victim int) {
	f.t.Helper()
	f.must(os.RemoveAll(f.instances[victim].Settings.StateDir))
	f.must(f.instances[victim].Start())
}

// killWithBroker kills a broker too.
func killWithBroker(f *fleet, victim int) (back func()) {
	var broker error
	var killing sync.WaitGroup
	killing.Go(func() { broker = f.cluster.KillBroker(victim) })
	f.must(f.instances[victim].Kill())
	killing.Wait()
	f.must(broker)
	resumed := false
	f.t.Cleanup(func() {
		if !resumed { // the load ends when all that was sent is acknowledged
			if err := f.cluster.Resume(context.Background()); err != nil {
				f.t.Error(err)
			}
		}
	})
	return func() {
		ctx, cancel := f.wait()
		defer cancel()
		f.must(f.cluster.Resume(ctx))
		resumed = true
		f.must(f.cluster.AwaitReplicas(ctx))
		f.replace(victim)
	}
}

// vanish cuts the instance's host off. Nothing closes, neither then nor when the process ends.
func vanish(f *fleet, victim int) (back func()) {
	h := f.hosts[victim]
	h.cut()
	return func() {
		f.must(f.instances[victim].Kill())
		h.mend()
		f.replace(victim)
	}
}

// freeze stops the process for a time, and lets it go on as if nothing had happened.
func freeze(f *fleet, victim int) (back func()) {
	f.must(f.instances[victim].Tell(syscall.SIGSTOP))
	thaw := time.NewTimer(frozenFor)
	return func() {
		<-thaw.C
		f.must(f.instances[victim].Tell(syscall.SIGCONT))
	}
}

// restored returns how many changelog records the restores of the instances' tasks have read.
func (f *fleet) restored(instances []*latency.Instance) (sum int64) {
	f.t.Helper()
	for _, i := range instances {
		_, n := f.running(i)
		sum += n
	}
	return sum
}

// watchTasks returns when the instances had all tasks assigned, and when they ran all of them.
func (f *fleet) watchTasks(instances []*latency.Instance, since time.Time) (assigned, run time.Duration) {
	f.t.Helper()
	ctx, cancel := f.wait()
	defer cancel()
	tick := time.NewTicker(statusPoll)
	defer tick.Stop()
	for {
		tasks, at := map[int32]txn.TaskState{}, time.Now()
		for _, i := range instances {
			f.must(i.Ended())
			if status, err := i.Status(ctx); err == nil {
				for _, task := range status.Tasks {
					tasks[task.ID.Partition] = task.State
				}
			}
		}
		if len(tasks) == int(f.topics.Partitions) {
			if assigned == 0 {
				assigned = at.Sub(since)
			}
			if !slices.ContainsFunc(slices.Collect(maps.Values(tasks)), func(s txn.TaskState) bool { return s != txn.TaskRunning }) {
				return assigned, at.Sub(since)
			}
		}
		select {
		case <-ctx.Done():
			f.t.Fatalf("the others do not take over: %v", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// endsOfLogs returns how long the logs of instances are.
func (f *fleet) endsOfLogs(instances []*latency.Instance) map[string]int64 {
	f.t.Helper()
	ends := map[string]int64{}
	for _, i := range instances {
		info, err := os.Stat(i.Settings.Log)
		f.must(err)
		ends[i.Settings.Log] = info.Size()
	}
	return ends
}

var logLine = regexp.MustCompile(`(?m)^time=(\S+) level=\S+ msg="([^"]*)"`)

// trace returns when the logs first say that a peer is suspected, is fenced, and was fenced; zero
// for what they do not say.
func (f *fleet) trace(logs map[string]int64, since time.Time) (suspected, fencing, fenced time.Duration) {
	f.t.Helper()
	first := map[string]time.Duration{}
	for path, end := range logs {
		text, err := os.ReadFile(path)
		f.must(err)
		for _, line := range logLine.FindAllSubmatch(text[end:], -1) {
			at, err := time.Parse(time.RFC3339, string(line[1]))
			f.must(err)
			// The log has milliseconds, and cuts the rest off.
			d, message := max(at.Sub(since.Round(0)), time.Microsecond), string(line[2])
			if earlier, known := first[message]; !known || d < earlier {
				first[message] = d
			}
		}
	}
	return first["a peer is suspected"], first["a peer is fenced"], first["a peer was fenced"]
}
