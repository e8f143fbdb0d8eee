package comparison

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/measure"
)

// RecoveryConfig is how recoveries are measured: on the workload ledger, under a steady load that
// never waits.
type RecoveryConfig struct {
	// Rate is events per second.
	Rate int
	// Restarts and Takeovers are how often each candidate is killed: its only process, which is
	// started again at once, and one of two, which stays away.
	Restarts, Takeovers int
	// Between is how long the load runs before each kill: it is state to restore.
	Between time.Duration
}

// Disturbances.
const (
	restart  = "restart"
	takeover = "takeover"
)

// Recovery is one kill -9 under load.
type Recovery struct {
	Candidate string `json:"candidate"`
	// The fault: restart or takeover.
	What string `json:"what"`
	// First and All are from the kill until a read_committed reader has an event that was due after
	// the kill: from any partition, and from every one.
	First time.Duration `json:"first_ns"`
	All   time.Duration `json:"all_ns"`
	// Events is how many had been sent before: all of them are in the state.
	Events uint64 `json:"events"`
	Load   string `json:"load"`
}

// streamsStatic is Kafka Streams with static membership, the one setting that makes a restart not
// wait for a session to end.
const streamsStatic = "streams static"

// staticMember is the setting. Each instance has its own value.
const staticMember = "group.instance.id=member-%d"

const (
	// recoveryMax is beyond a session timeout, a transaction timeout and a restore.
	recoveryMax = 5 * time.Minute
	// loadWorkload is the one under load.
	loadWorkload = "ledger"
)

// fleet is some processes of one application under load. Each has its directory, which stays over
// its lives.
type fleet struct {
	m       *measurement
	who     candidate
	job     job
	dir     string
	topics  latency.Topics
	load    *latency.Load
	members []*measure.Process // nil while it is down
}

// recoveryCandidates are the candidates with default settings, and Kafka Streams with static
// membership.
func (m *measurement) recoveryCandidates() []candidate {
	all := []candidate{onceward}
	if m.cfg.Streams != nil {
		defaults := streams.Tuning{Name: "defaults"}
		all = append(all, candidate{name: Streams, kind: kindStreams, tuning: defaults},
			candidate{name: streamsStatic, kind: kindStreams, tuning: defaults})
	}
	return m.chosen(all)
}

// recoveries measures all candidates, one after the other.
func (m *measurement) recoveries(ctx context.Context) error {
	cfg := m.cfg.Recovery
	if cfg == nil {
		return nil
	}
	for _, c := range m.recoveryCandidates() {
		if err := m.recoverFrom(ctx, c, restart, 1, cfg.Restarts); err != nil {
			return fmt.Errorf("%s, %s: %w", c.name, restart, err)
		}
		if c.name == streamsStatic {
			continue // who stays away is missed for as long as before
		}
		for range cfg.Takeovers {
			// Each with processes of its own: one that comes back gets tasks of Kafka Streams only
			// after a restore and a probing rebalance, which is every ten minutes.
			if err := m.recoverFrom(ctx, c, takeover, 2, 1); err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, takeover, err)
			}
		}
	}
	return nil
}

// recoverFrom kills the last process of a candidate so often, and makes sure at the end that every
// event came once.
func (m *measurement) recoverFrom(ctx context.Context, c candidate, what string, processes, times int) (err error) {
	if times == 0 {
		return nil
	}
	f, err := m.newFleet(ctx, c, processes, m.cfg.Recovery.Rate)
	if err != nil {
		return err
	}
	defer func() { err = f.close(ctx, err) }()
	for range times {
		if err := f.flow(ctx, time.Now().Add(m.cfg.Recovery.Between)); err != nil {
			return err
		}
		r, err := f.disturb(ctx, what, processes-1)
		if err != nil {
			return err
		}
		m.result.Recovery = append(m.result.Recovery, r)
		m.say("%-11s  %-14s  first partition after %6.2f s, all after %6.2f s, %d events before", what, c.name, r.First.Seconds(),
			r.All.Seconds(), r.Events)
	}
	return f.drain(ctx)
}

// newFleet starts the processes and the load, and returns when every partition is processed.
func (m *measurement) newFleet(ctx context.Context, c candidate, processes, rate int) (_ *fleet, err error) {
	f := &fleet{m: m, who: c, members: make([]*measure.Process, processes)}
	if f.dir, err = os.MkdirTemp(m.cfg.Dir, "fleet-"); err != nil {
		return nil, err
	}
	name := m.name(loadWorkload, c.name)
	f.job = job{workload: loadWorkload, application: name}
	defer func() {
		if err != nil {
			err = f.close(ctx, err)
		}
	}()
	f.topics = latency.TopicsOf(name, m.cfg.Partitions)
	f.job.in, f.job.out = f.topics.In, f.topics.Out
	if err = f.topics.Create(ctx, m.cfg.Brokers); err != nil {
		return nil, err
	}
	for n := range processes {
		if err = f.start(ctx, n); err != nil {
			return nil, err
		}
	}
	if err = m.cluster.AwaitShares(ctx, name, f.job.in, processes); err != nil {
		return nil, err
	}
	if f.load, err = latency.StartLoad(ctx, m.cfg.Brokers, f.topics, rate); err != nil {
		return nil, err
	}
	return f, f.flow(ctx, time.Now())
}

// disturb kills a process and waits until every partition goes on.
func (f *fleet) disturb(ctx context.Context, what string, victim int) (r Recovery, err error) {
	r = Recovery{Candidate: f.who.name, What: what, Events: f.load.Producer.Sent(), Load: latency.LoadAverage()}
	killed := time.Now()
	if err := f.kill(victim); err != nil {
		return r, err
	}
	if what == restart {
		if err := f.start(ctx, victim); err != nil {
			return r, err
		}
	}
	first, err := f.await(ctx, killed)
	if err != nil {
		return r, err
	}
	moments := slices.SortedFunc(maps.Values(first), time.Time.Compare)
	r.First, r.All = moments[0].Sub(killed), moments[len(moments)-1].Sub(killed)
	return r, nil
}

// start starts a process, or its next incarnation.
func (f *fleet) start(ctx context.Context, n int) error {
	c, j := f.who, f.job
	if c.name == streamsStatic {
		c.tuning.Properties = append(slices.Clone(c.tuning.Properties), fmt.Sprintf(staticMember, n))
	}
	j.dir = processDir(f.dir, n)
	cmd, err := f.m.command(ctx, c, j)
	if err != nil {
		return err
	}
	f.members[n], err = measure.Start(cmd, f.m.log(c, n))
	return err
}

// kill ends a process with SIGKILL.
func (f *fleet) kill(n int) error {
	p := f.members[n]
	f.members[n] = nil
	return p.Kill()
}

// flow waits until every partition shows an event that was due after the moment.
func (f *fleet) flow(ctx context.Context, after time.Time) error {
	_, err := f.await(ctx, after)
	return err
}

// await is flow with the times at which the events came, by partition.
func (f *fleet) await(ctx context.Context, after time.Time) (map[int32]time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, recoveryMax, errRecovery)
	defer cancel()
	var lanes []int32
	for p := range f.topics.Partitions {
		lanes = append(lanes, p)
	}
	return f.load.Reader.AwaitLanes(ctx, lanes, after)
}

var errRecovery = fmt.Errorf("some partitions do not go on within %s", recoveryMax)

// drain ends the load and makes sure that every event came, and came once.
func (f *fleet) drain(ctx context.Context) error {
	if err := f.load.StopSending(); err != nil {
		return err
	}
	sent := f.load.Producer.Sent()
	if err := f.load.Await(ctx, sent); err != nil {
		return err
	}
	if err := f.load.Stop(); err != nil {
		return err
	}
	_, err := f.load.Reader.Latencies(0, sent)
	return err
}

// close ends everything: the processes in order, or at once after an error.
func (f *fleet) close(ctx context.Context, err error) error {
	if f.load != nil {
		err = joined(err, f.load.Close())
	}
	for n, p := range f.members {
		if p == nil {
			continue
		}
		f.members[n] = nil
		if err == nil {
			err = p.End()
		} else {
			err = errors.Join(err, p.Kill())
		}
	}
	return joined(f.m.deleteRun(ctx, f.job.application, err), os.RemoveAll(f.dir))
}
