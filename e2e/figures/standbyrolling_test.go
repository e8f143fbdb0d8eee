package figures

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/e2e/cluster"
)

// warmRestart is the restart of one instance, in order, with its identity and its state.
type warmRestart struct {
	Instance string `json:"instance"`
	// Stop is how long the stop took. Back is from the start until every instance has its share of
	// the tasks again and every task its warm copy.
	Stop time.Duration `json:"stop_ns"`
	Back time.Duration `json:"back_ns"`
	// Silences are the longest times in which a partition of the input had no new output, from the
	// stop until the next restart. All of them have input all the time. Own is the longest one of a
	// partition that the instance had, Others that of any other one.
	Silences map[int32]time.Duration `json:"silences_ns"`
	Own      time.Duration           `json:"own_ns"`
	Others   time.Duration           `json:"others_ns"`
	// Readers is the longest time in which a partition of the output showed nothing.
	Readers time.Duration `json:"readers_ns"`
	Load    string        `json:"load"`
}

func (r warmRestart) longest() time.Duration { return max(r.Own, r.Others) }

func (r warmRestart) String() string {
	return fmt.Sprintf("%s stopped in %s, all as before %s after the start; silence of its partitions at most %s, of others %s, of readers %s, load %s",
		r.Instance, round(r.Stop), round(r.Back), round(r.Own), round(r.Others), round(r.Readers), r.Load)
}

// warmRolling is a rolling restart, again and again.
type warmRolling struct {
	Host     string        `json:"host"`
	Time     time.Time     `json:"time"`
	Rate     int           `json:"events_per_second"`
	State    int           `json:"state_events"`
	Remain   bool          `json:"remain"`
	Events   uint64        `json:"events"`
	Restarts []warmRestart `json:"restarts"`
	latency.Anomalies
}

const (
	rollAtLeast = time.Second
	rollAim     = 300 * time.Millisecond
)

// measureRollingWarm restarts each of three instances in turn. With remain they stay members of the
// group over the restart, so that no other instance takes their tasks.
func measureRollingWarm(t *testing.T, remain bool) warmRolling {
	settings := peered(1)
	settings.Remain = remain
	r := warmRolling{Host: latency.Host(), Time: time.Now().UTC(), Rate: *rate, State: *state, Remain: remain}
	f := newFleet(t, cluster.OwnWith(t, cluster.KindKafka, cluster.Options{Settings: brokerDefaults}), fleetPlan{
		instances: 3, partitions: 2 * 3, rate: *rate, state: *state, common: settings,
	})
	f.run(beforeFailure)
	for range *rolls {
		for _, i := range f.instances {
			one := f.restartWarm(i)
			t.Logf("%s", one)
			r.Restarts = append(r.Restarts, one)
		}
	}
	r.Events, r.Anomalies = f.finish()
	return r
}

// restartWarm restarts an instance and lets the load go on until whatever it leads to has happened.
func (f *fleet) restartWarm(i *latency.Instance) warmRestart {
	f.t.Helper()
	lanes, _ := f.running(i)
	r := warmRestart{Instance: i.Settings.Instance, Load: latency.LoadAverage()}
	ctx, cancel := f.wait()
	defer cancel()
	began := time.Now()
	f.must(i.Stop(ctx))
	r.Stop = time.Since(began)
	f.must(i.Start())
	f.settle()
	r.Back = time.Since(i.Started)
	f.run(beforeFailure)
	end := time.Now()
	r.Silences = f.load.Reader.Pauses(began, end)
	r.Own, r.Others = longest(r.Silences, lanes)
	for _, silence := range f.load.Reader.Silences(began, end) {
		r.Readers = max(r.Readers, silence)
	}
	return r
}

// markdown is the report for people.
func (r warmRolling) markdown() string {
	var b strings.Builder
	how := "leaves the group"
	if r.Remain {
		how = "remains a member of the group"
	}
	fmt.Fprintf(&b, "# Rolling restart\n\n%s, %s. Three instances with one standby, %d events/s, a state of %d events at the start. Each instance in "+
		"turn is stopped in order and started again, with its identity and its state. It %s meanwhile. %d restarts. Seconds.\n\n"+
		"Silence: the longest time in which a partition of the input had no new output, or a partition of the output showed nothing to a read_committed "+
		"reader. Each time is counted from the stop until the next stop, so it contains the moves of tasks to and from the instance.\n\n"+
		"| silence | min | p50 | p90 | max | at least | aim |\n|---|---|---|---|---|---|---|\n",
		r.Time.Format(time.DateOnly), r.Host, r.Rate, r.State, how, len(r.Restarts))
	for _, figure := range []struct {
		name       string
		of         func(warmRestart) time.Duration
		least, aim time.Duration
	}{
		{"any partition", warmRestart.longest, rollAtLeast, rollAim},
		{"partitions of the instance", func(k warmRestart) time.Duration { return k.Own }, 0, 0},
		{"other partitions", func(k warmRestart) time.Duration { return k.Others }, 0, 0},
		{"readers", func(k warmRestart) time.Duration { return k.Readers }, 0, 0},
	} {
		s := distribution(r.Restarts, figure.of)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", figure.name, seconds(s.Min), seconds(s.P50), seconds(s.P90), seconds(s.Max),
			seconds(figure.least), seconds(figure.aim))
	}
	stop, back := distribution(r.Restarts, func(k warmRestart) time.Duration { return k.Stop }),
		distribution(r.Restarts, func(k warmRestart) time.Duration { return k.Back })
	fmt.Fprintf(&b, "\nA stop took %s (median) to %s. All tasks and copies were as before %s (median) to %s after the start.\n\n%s",
		seconds(stop.P50), seconds(stop.Max), seconds(back.P50), seconds(back.Max), exactlyOnce(r.Events, r.Anomalies))
	return b.String()
}
