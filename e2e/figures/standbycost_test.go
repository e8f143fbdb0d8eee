package figures

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/throughput"
	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/e2e/cluster"
)

// costRun is one run of an application whose only task is at one of two instances. The other one
// has a copy of the task, or nothing.
type costRun struct {
	Standby bool `json:"standby"`
	// Records and Seconds are those of the steady part.
	Records          int64   `json:"records"`
	Seconds          float64 `json:"seconds"`
	RecordsPerSecond float64 `json:"records_per_second"`
	// Active, Other and Broker are the processor time of the instance with the task, of the other
	// one and of the broker: seconds per million records.
	Active float64 `json:"active_cpu_seconds_per_million"`
	Other  float64 `json:"other_cpu_seconds_per_million"`
	Broker float64 `json:"broker_cpu_seconds_per_million"`
	// Behind is how many records of the input the copy had not yet at the end of the steady part.
	Behind int64 `json:"copy_behind_records"`
	// Latency is that of the steady load, and zero for a backlog.
	Latency latency.Summary `json:"latency"`
	Load    string          `json:"load"`
}

func (r costRun) String() string {
	s := "without a standby"
	if r.Standby {
		s = fmt.Sprintf("with a standby (%d records behind)", r.Behind)
	}
	s += fmt.Sprintf(": %.0f records/s in %.1f s; CPU s per million: active %.2f, other %.2f, broker %.2f", r.RecordsPerSecond, r.Seconds, r.Active,
		r.Other, r.Broker)
	if r.Latency.Count > 0 {
		s += "; " + r.Latency.String()
	}
	return s + ", load " + r.Load
}

// costRound is one run with a standby and one without, in turns.
type costRound struct {
	With, Without costRun
}

// ratio is the rate with a standby over that without one.
func (r costRound) ratio() float64 { return r.With.RecordsPerSecond / r.Without.RecordsPerSecond }

// costFigures compares instances with a standby and without one.
type costFigures struct {
	Host    string      `json:"host"`
	Time    time.Time   `json:"time"`
	Backlog int64       `json:"backlog_records"`
	Rate    int         `json:"events_per_second"`
	Drains  []costRound `json:"backlog"`
	Steady  []costRound `json:"steady"`
}

const (
	// steadyFor is how long the steady load is measured.
	steadyFor = 30 * time.Second
	costLeast = 0.85
	costAim   = 0.95
)

// measureCosts compares throughput and processor time with and without a standby. There is one
// task, so that one instance has the task and the other one the copy alone. Both instances run, and
// watch each other, in either case. A round has both cases, and every second round begins with the
// other one.
func measureCosts(t *testing.T) costFigures {
	r := costFigures{Host: latency.Host(), Time: time.Now().UTC(), Backlog: *backlog, Rate: *rate}
	c := cluster.OwnWith(t, cluster.KindKafka, cluster.Options{Settings: brokerDefaults})
	input := c.Name(t, "backlog")
	if _, err := throughput.Fill(t.Context(), throughput.FillConfig{
		Brokers: c.Brokers(), Workload: latency.WorkloadDefault, Topic: input, Partitions: 1, Records: *backlog,
		Input: workload.Input{Seed: 1, Keys: 100_000, Distribution: workload.Uniform, Duplicates: 0.01},
	}); err != nil {
		t.Fatal(err)
	}
	both := func(round int, measure func(t *testing.T, standby bool) costRun) (out costRound) {
		for turn := range 2 {
			standby := turn == round%2
			t.Run(map[bool]string{true: "with", false: "without"}[standby], func(t *testing.T) {
				run := measure(t, standby)
				t.Logf("%s", run)
				if standby {
					out.With = run
				} else {
					out.Without = run
				}
			})
		}
		if t.Failed() {
			t.FailNow()
		}
		return out
	}
	for n := range *rounds {
		r.Drains = append(r.Drains, both(n, func(t *testing.T, standby bool) costRun { return drain(t, c, input, standby) }))
		r.Steady = append(r.Steady, both(n, func(t *testing.T, standby bool) costRun { return steady(t, c, standby) }))
	}
	return r
}

// processorTimes are those of the instances of a fleet, and of the broker behind them.
func (f *fleet) processorTimes() (times []time.Duration, err error) {
	for _, pid := range []int{f.instances[0].PID(), f.instances[1].PID(), f.cluster.PID()} {
		used, err := measure.CPUTime(pid)
		if err != nil {
			return nil, err
		}
		times = append(times, used)
	}
	return times, nil
}

// cost fills in what was used between two moments.
func (r *costRun) cost(before, after []time.Duration, active int) {
	of := func(n int) float64 { return (after[n] - before[n]).Seconds() / float64(r.Records) * 1e6 }
	r.Active, r.Other, r.Broker = of(active), of(1-active), of(2)
	r.RecordsPerSecond = float64(r.Records) / r.Seconds
}

// active returns which instance has the task, and how far the copy of the other one is behind it.
func (f *fleet) active(ctx context.Context) (active int, behind int64, err error) {
	active = -1
	var at [2]int64
	for n, i := range f.instances {
		status, err := i.Status(ctx)
		if err != nil {
			return active, 0, err
		}
		for _, task := range status.Tasks {
			active, at[0] = n, task.Inputs[0].Offset
		}
		for _, c := range status.Standbys {
			if len(c.Inputs) > 0 {
				at[1] = c.Inputs[0].Offset
			}
		}
	}
	if active < 0 {
		return active, 0, errors.New("no instance has the task")
	}
	return active, at[0] - at[1], nil
}

// drain measures how fast a backlog is processed, from the first quarter of it on. Output and state
// are checked.
func drain(t *testing.T, c *cluster.Cluster, input string, standby bool) costRun {
	name := c.Name(t, "drain")
	f := &fleet{t: t, cluster: c, patience: waitMax, topics: latency.Topics{In: input, Out: name + "-out", Dead: name + "-dead", Partitions: 1}}
	c.CreateTopics(t, 1, f.topics.Out, f.topics.Dead)
	r := costRun{Standby: standby, Load: latency.LoadAverage()}
	f.equip(name, fleetPlan{instances: 2, common: peered(standbysOf(standby))})
	for _, i := range f.instances {
		f.must(i.Start())
	}
	var looks [][]time.Duration
	p, err := throughput.Watch(t.Context(), throughput.WatchConfig{
		Brokers: c.Brokers(), Application: name, In: input, Out: f.topics.Out, Until: *backlog,
		Usage: func() (throughput.Usage, error) {
			times, err := f.processorTimes()
			looks = append(looks, times)
			return throughput.Usage{}, err
		},
	})
	f.must(err)
	active, behind, err := f.active(t.Context())
	f.must(err)
	r.Records, r.Seconds = p.Steady.Records, p.Steady.Seconds
	r.cost(looks[1], looks[2], active)
	if standby {
		r.Behind = behind
	}
	ctx, cancel := f.wait()
	defer cancel()
	for _, i := range f.instances {
		f.must(i.Stop(ctx))
	}
	_, err = throughput.Check(ctx, throughput.CheckConfig{
		Brokers: c.Brokers(), Workload: latency.WorkloadDefault, In: input, Out: f.topics.Out, Until: *backlog,
	})
	f.must(err)
	return r
}

func standbysOf(standby bool) int {
	if standby {
		return 1
	}
	return 0
}

// steady measures latency and processor time under the steady load.
func steady(t *testing.T, c *cluster.Cluster, standby bool) costRun {
	f := newFleet(t, c, fleetPlan{instances: 2, partitions: 1, rate: *rate, common: peered(standbysOf(standby))})
	f.run(beforeFailure)
	r := costRun{Standby: standby, Load: latency.LoadAverage()}
	began := time.Now()
	before, err := f.processorTimes()
	f.must(err)
	f.run(steadyFor)
	after, err := f.processorTimes()
	f.must(err)
	end := time.Now()
	active, behind, err := f.active(t.Context())
	f.must(err)
	if standby {
		r.Behind = behind
	}
	from, to := f.load.Schedule.DueAt(began), f.load.Schedule.DueAt(end)
	r.Records, r.Seconds = int64(to-from), end.Sub(began).Seconds()
	r.cost(before, after, active)
	f.finish()
	sorted, err := f.load.Reader.Latencies(from, to)
	f.must(err)
	r.Latency = latency.Summarize(sorted)
	return r
}

// markdown is the report for people.
func (r costFigures) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The cost of a standby\n\n%s, %s.\n\nTwo instances that watch each other, and one task of the workload ledger. One instance has the task, "+
		"the active. The other one has a copy of it (with), or nothing (without). That is the only difference. Both instances, the broker, and in the steady state "+
		"the load share the processors of one machine. The active therefore also loses what the copy uses, which it would not with the copy on another host. "+
		"Processor time is in seconds per million records.\n", r.Time.Format(time.DateOnly), r.Host)
	table := func(title string, rounds []costRound, last string, figure func(costRun) string) {
		fmt.Fprintf(&b, "\n%s\n\n| round | standby | records/s | active CPU | other CPU | broker CPU | copy behind, records | %s |\n|---|---|---|---|---|---|---|---|\n",
			title, last)
		for n, round := range rounds {
			for _, run := range []costRun{round.Without, round.With} {
				fmt.Fprintf(&b, "| %d | %s | %.0f | %.2f | %.2f | %.2f | %d | %s |\n", n+1, map[bool]string{true: "with", false: "without"}[run.Standby],
					run.RecordsPerSecond, run.Active, run.Other, run.Broker, run.Behind, figure(run))
			}
		}
	}
	table(fmt.Sprintf("A backlog of %d records, drained; the first quarter is not counted.", r.Backlog), r.Drains, "s",
		func(run costRun) string { return fmt.Sprintf("%.1f", run.Seconds) })
	b.WriteString("\n| round | throughput with / without | active CPU with / without |\n|---|---|---|\n")
	var ratios []float64
	for n, round := range r.Drains {
		ratios = append(ratios, round.ratio())
		fmt.Fprintf(&b, "| %d | %.3f | %.3f |\n", n+1, round.ratio(), round.With.Active/round.Without.Active)
	}
	fmt.Fprintf(&b, "\nMedian of the ratios of throughput: %.3f; at least %.2f, aim %.2f.\n", measure.SpreadOf(ratios).Median, costLeast, costAim)
	table(fmt.Sprintf("A steady load of %d events/s for %s.", r.Rate, steadyFor), r.Steady, "latency", func(run costRun) string { return run.Latency.String() })
	return b.String()
}
