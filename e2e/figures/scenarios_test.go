package figures

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/e2e/cluster"
)

// measureLatency runs the steady load.
func measureLatency(t *testing.T, c *cluster.Cluster, p plan) []latency.Result {
	dir := p.dir
	var results []latency.Result
	for n := range p.latencyRuns {
		name, warmup, run := c.Name(t, "app"), p.warmup, filepath.Join(dir, fmt.Sprint("latency-", n))
		if n == 0 {
			warmup += p.warmBroker
		}
		r, err := latency.Measure(t.Context(), latency.Config{
			Brokers: c.Brokers(), Name: name, Partitions: partitions, Rate: p.rate, Warmup: warmup, Duration: p.duration,
			Dir: run, CPUProfile: filepath.Join(run, "app.pprof"),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", r)
		results = append(results, r)
	}
	return results
}

// Restart is one kill and start with the same identity.
type Restart struct {
	// First and All are from the start of the process until the first, and until every partition
	// shows output of an event that was due after the kill.
	First time.Duration `json:"first_ns"`
	All   time.Duration `json:"all_ns"`
	// Restored is the number of changelog records that were replayed.
	Restored int64  `json:"restored"`
	Load     string `json:"load"`
}

func measureRestarts(t *testing.T, c *cluster.Cluster, p plan) []Restart {
	f := newFleet(t, c, fleetPlan{instances: 1, partitions: partitions, rate: p.rate, common: p.restart})
	app := f.instances[0]
	var results []Restart
	for range p.restarts {
		f.run(p.between)
		f.must(app.Kill())
		killed := time.Now()
		f.must(app.Start())
		first, last := bounds(f.flowing(f.allLanes(), killed))
		_, restored := f.running(app)
		r := Restart{
			First: first.Sub(app.Started), All: last.Sub(app.Started), Restored: restored, Load: latency.LoadAverage(),
		}
		t.Logf("restart: first commit %s, all partitions %s after the start, %d records replayed, load %s",
			round(r.First), round(r.All), r.Restored, r.Load)
		results = append(results, r)
	}
	f.finish()
	return results
}

// run lets the load go on until events that are due after that time have come everywhere.
func (f *fleet) run(d time.Duration) {
	f.t.Helper()
	f.flowing(f.allLanes(), time.Now().Add(d))
}

// Takeover is one kill of an instance whose partitions another one takes.
type Takeover struct {
	Session     time.Duration `json:"session_timeout_ns"`
	Transaction time.Duration `json:"transaction_timeout_ns"`
	// First and All are from the kill until the first, and until every partition of the victim goes
	// on.
	First time.Duration `json:"first_ns"`
	All   time.Duration `json:"all_ns"`
	// Assigned is from the kill until the survivor has all tasks assigned, Restore from then until
	// it runs them. Both are as fine as the status is asked for, 20 ms.
	Assigned time.Duration `json:"assigned_ns"`
	Restore  time.Duration `json:"restore_ns"`
	Restored int64         `json:"restored"`
	// Others is the longest pause of the survivor's own partitions meanwhile, as readers see it:
	// open transactions of the victim block every output partition that it wrote to, until the
	// broker ends them.
	Others time.Duration `json:"others_ns"`
	Load   string        `json:"load"`
}

// beyond is what the target bounds: the time after the session timeout that was not restore.
func (r Takeover) beyond() time.Duration { return r.All - r.Session - r.Restore }

func measureTakeovers(t *testing.T, c *cluster.Cluster, p plan, s latency.Settings, n int) []Takeover {
	session, transaction := s.SessionTimeout, s.TransactionTimeout
	f := newFleet(t, c, fleetPlan{instances: 2, partitions: partitions, rate: p.rate, common: s})
	var results []Takeover
	for i := range n {
		f.run(p.between)
		victim, survivor := f.instances[i%2], f.instances[(i+1)%2]
		lanes, _ := f.running(victim)
		_, before := f.running(survivor)
		f.must(victim.Kill())
		killed := time.Now()
		r := Takeover{Session: session, Transaction: transaction}
		assigned, run := f.watchTasks([]*latency.Instance{survivor}, killed)
		r.Assigned, r.Restore = assigned, run-assigned
		first, last := bounds(f.flowing(lanes, killed))
		_, after := f.running(survivor)
		r.First, r.All, r.Restored, r.Load = first.Sub(killed), last.Sub(killed), after-before, latency.LoadAverage()
		f.flowing(f.allLanes(), killed)
		_, r.Others = f.pauses(lanes, killed)
		t.Logf("takeover: %s after the kill (first %s, assigned %s), restore of %d records %s, so %s beyond the session timeout of %s; "+
			"others paused %s, load %s", round(r.All), round(r.First), round(r.Assigned), r.Restored, round(r.Restore),
			round(r.beyond()), session, round(r.Others), r.Load)
		results = append(results, r)
		f.must(victim.Start())
		f.settle()
	}
	f.finish()
	return results
}

// Roll is the restart of one instance of a rolling restart.
type Roll struct {
	// Stop is how long the stop took, Back from the new start until every partition of the instance
	// shows output.
	Stop time.Duration `json:"stop_ns"`
	Back time.Duration `json:"back_ns"`
	// Pause is the longest pause of any of its partitions, Others that of any other one's,
	// meanwhile.
	Pause  time.Duration `json:"pause_ns"`
	Others time.Duration `json:"others_ns"`
	Load   string        `json:"load"`
}

func measureRolls(t *testing.T, c *cluster.Cluster, p plan) []Roll {
	f := newFleet(t, c, fleetPlan{instances: 3, partitions: 2 * 3, rate: p.rate, common: latency.Settings{Remain: true}})
	var results []Roll
	for range p.rolls {
		for _, i := range f.instances {
			f.run(p.between)
			results = append(results, f.roll(i))
		}
	}
	f.finish()
	return results
}

func (f *fleet) roll(i *latency.Instance) Roll {
	f.t.Helper()
	lanes, _ := f.running(i)
	ctx, cancel := f.wait()
	defer cancel()
	began := time.Now()
	f.must(i.Stop(ctx))
	down := time.Now()
	f.must(i.Start())
	_, back := bounds(f.flowing(lanes, down))
	f.flowing(f.allLanes(), back) // whatever the restart did to the others has happened
	r := Roll{Stop: down.Sub(began), Back: back.Sub(i.Started), Load: latency.LoadAverage()}
	r.Pause, r.Others = f.pauses(lanes, began)
	f.t.Logf("rolling: %s stopped in %s, back %s after the start, its %d partitions paused at most %s, others %s, load %s",
		i.Settings.Instance, round(r.Stop), round(r.Back), len(lanes), round(r.Pause), round(r.Others), r.Load)
	return r
}

// pauses returns the longest pause since a moment of any of the lanes, and of any other one.
func (f *fleet) pauses(lanes []int32, since time.Time) (own, others time.Duration) {
	return longest(f.load.Reader.Pauses(since, time.Now()), lanes)
}

// longest returns the longest of the pauses of the lanes, and of any other one.
func longest(pauses map[int32]time.Duration, lanes []int32) (own, others time.Duration) {
	for lane, pause := range pauses {
		if slices.Contains(lanes, lane) {
			own = max(own, pause)
		} else {
			others = max(others, pause)
		}
	}
	return own, others
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
