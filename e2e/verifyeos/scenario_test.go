//go:build unix

package verifyeos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/clients/process"
	"github.com/onceward/onceward/e2e/cluster"
)

const (
	application = "EosTest"
	input       = "data"
	repartition = "repartition"
	partitions  = 5

	// stepTimeout bounds each wait and only decides how long a failure takes to show. A takeover takes the
	// session timeout, 10 s; a transaction of the dead instance ends at about the same time.
	stepTimeout = 3 * time.Minute
	stepPoll    = 50 * time.Millisecond
	// killTimeout bounds the search for an open transaction.
	killTimeout = time.Minute
	killPoll    = 3 * time.Millisecond
)

// scenario is one application on a broker that has nothing else, because Kafka's test gives the names of the
// topics and of the group.
type scenario struct {
	t         *testing.T
	cluster   *cluster.Cluster
	judge     *judge
	variant   variant
	binary    string
	generator *generator // nil while it is down
	instances []*process.Instance
	started   time.Time
	records   int64 // as the generator says, once it is stopped
	kills     struct{ all, met, open int }
}

func newScenario(t *testing.T, c *cluster.Cluster, j *judge, binary string, v variant) *scenario {
	t.Helper()
	s := &scenario{t: t, cluster: c, judge: j, variant: v, binary: binary}
	if err := s.judge.configure(s.cluster.Brokers()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the broker is closed
		if s.generator == nil {
			return
		}
		if err := s.generator.process.Kill(); err != nil {
			t.Error(err)
		}
	})
	s.started = time.Now()
	return s
}

// add makes an instance.
func (s *scenario) add(name string, more ...string) *process.Instance {
	args := append([]string{"--variant", s.variant.name}, more...)
	i := process.New(s.t, s.binary, name, s.cluster.Brokers(), args...)
	s.instances = append(s.instances, i)
	return i
}

func (s *scenario) logf(format string, args ...any) {
	s.t.Helper()
	s.t.Logf("%6.1f s: "+format, append([]any{time.Since(s.started).Seconds()}, args...)...)
}

// run does everything up to the orderly stop of all instances.
func (s *scenario) run(ctx context.Context, p plan) error {
	if err := s.createTopics(ctx, append([]string{input}, s.variant.outputs...)...); err != nil {
		return err
	}
	var err error
	if s.generator, err = s.judge.generate(); err != nil {
		return err
	}
	for _, i := range s.instances {
		if err := i.Start(); err != nil {
			return err
		}
	}
	if err := s.proceed(ctx, s.instances); err != nil {
		return fmt.Errorf("at the start: %w", err)
	}
	s.logf("%d instances are running", len(s.instances))
	if err := s.rotate(ctx, p); err != nil {
		return err
	}
	if err := s.stopGenerator(ctx); err != nil {
		return err
	}
	if err := s.drain(ctx); err != nil {
		return fmt.Errorf("after the generator has stopped: %w", err)
	}
	return s.stop(ctx)
}

// rotate carries out the plan, one instance after the other.
func (s *scenario) rotate(ctx context.Context, p plan) error {
	turn := 0
	for _, step := range []struct {
		name  string
		times int
		do    func(ctx context.Context, i *process.Instance) error
	}{
		{"kill", p.kills, s.killAndTakeOver},
		{"kill and restart", p.restarts, s.killAndRestart},
		{"stop", p.stops, s.stopAndTakeOver},
	} {
		for range step.times {
			i := s.instances[turn%len(s.instances)]
			turn++
			if err := step.do(ctx, i); err != nil {
				return fmt.Errorf("%s %s: %w", step.name, i.Name(), err)
			}
		}
	}
	return nil
}

// killAndTakeOver kills the instance, waits until the others have taken over its tasks, and starts it again.
func (s *scenario) killAndTakeOver(ctx context.Context, i *process.Instance) error {
	if err := s.strike(ctx, i); err != nil {
		return err
	}
	return s.comeBack(ctx, i)
}

// killAndRestart kills the instance and starts it before its session ends, so that it gets its tasks back.
func (s *scenario) killAndRestart(ctx context.Context, i *process.Instance) error {
	if err := s.strike(ctx, i); err != nil {
		return err
	}
	return s.begin(ctx, i)
}

// stopAndTakeOver ends the instance in order, waits until the others have taken over its tasks, and starts it
// again.
func (s *scenario) stopAndTakeOver(ctx context.Context, i *process.Instance) error {
	if err := s.terminate(ctx, i); err != nil {
		return err
	}
	return s.comeBack(ctx, i)
}

// comeBack waits for the takeover of the tasks of an instance that is down, and starts it again.
func (s *scenario) comeBack(ctx context.Context, i *process.Instance) error {
	down := time.Now()
	if err := s.proceed(ctx, s.others(i)); err != nil {
		return fmt.Errorf("takeover: %w", err)
	}
	s.logf("the others have taken over from %s after %.1f s", i.Name(), time.Since(down).Seconds())
	return s.begin(ctx, i)
}

// begin starts the instance and waits until all instances work.
func (s *scenario) begin(ctx context.Context, i *process.Instance) error {
	begun := time.Now()
	if err := i.Start(); err != nil {
		return err
	}
	if err := s.proceed(ctx, s.instances); err != nil {
		return fmt.Errorf("start again: %w", err)
	}
	s.logf("%s is back after %.1f s", i.Name(), time.Since(begun).Seconds())
	return nil
}

func (s *scenario) others(not *process.Instance) []*process.Instance {
	var others []*process.Instance
	for _, i := range s.instances {
		if i != not {
			others = append(others, i)
		}
	}
	return others
}

// strike kills the instance while the broker lists an open transaction of it. It looks for one while the
// instance is frozen: transactions last a few milliseconds, and are over when the answer of the broker is
// here.
func (s *scenario) strike(ctx context.Context, i *process.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	tried := 0
	for {
		if err := i.Check(); err != nil {
			return err
		}
		tried++
		if err := i.Freeze(); err != nil {
			return err
		}
		open, err := s.openTransactions(ctx, i)
		if err == nil && open > 0 {
			// Again, since the request that ends it may have been on its way.
			open, err = s.openTransactions(ctx, i)
		}
		if err != nil {
			return errors.Join(err, i.Thaw())
		}
		if open > 0 {
			break
		}
		if err := i.Thaw(); err != nil {
			return err
		}
		if !pause(ctx, killPoll) {
			return fmt.Errorf("none of %d looks found an open transaction", tried)
		}
	}
	if err := i.Kill(); err != nil {
		return err
	}
	open, err := s.openTransactions(ctx, i)
	if err != nil {
		return err
	}
	s.kills.all++
	s.kills.open += open
	if open > 0 {
		s.kills.met++
	}
	s.logf("%s is killed with %d open transactions, found at look %d", i.Name(), open, tried)
	return nil
}

// openTransactions returns how many of the instance's transactions are open.
func (s *scenario) openTransactions(ctx context.Context, i *process.Instance) (int, error) {
	ids, err := s.cluster.OpenTransactions(ctx, application+"~"+i.Name()+"~")
	return len(ids), err
}

// proceed waits until the instances say that they are running and have processed something more, and until
// every input that there was at the call is committed in every partition, whoever had it before.
func (s *scenario) proceed(ctx context.Context, instances []*process.Instance) error {
	before := make([]int64, len(instances))
	for n, i := range instances {
		_, before[n] = i.Last()
	}
	targets := map[string][]int64{}
	for _, topic := range s.variant.inputs {
		ends, err := s.cluster.EndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		targets[topic] = ends
	}
	if err := s.awaitCommits(ctx, targets); err != nil {
		return err
	}
	return s.await(ctx, func(context.Context) (waiting string, err error) {
		for n, i := range instances {
			if state, records := i.Last(); state != "RUNNING" || records <= before[n] {
				return fmt.Sprintf("%s is %s and has processed %d records, %d of them before",
					i.Name(), state, records, before[n]), nil
			}
		}
		return "", nil
	})
}

// awaitCommits waits until the group has committed at least the offsets.
func (s *scenario) awaitCommits(ctx context.Context, targets map[string][]int64) error {
	var topics []string
	for topic := range targets {
		topics = append(topics, topic)
	}
	return s.await(ctx, func(ctx context.Context) (waiting string, err error) {
		commits, err := s.cluster.CommittedOffsets(ctx, application, topics...)
		if err != nil {
			return "", err
		}
		for topic, offsets := range targets {
			for p, target := range offsets {
				if at := commits[topic][p].Offset; at < target {
					return fmt.Sprintf("%s-%d is committed up to %d of %d", topic, p, at, target), nil
				}
			}
		}
		return "", nil
	})
}

// check returns an error if a process has ended by itself.
func (s *scenario) check() error {
	if s.generator != nil {
		if err := s.generator.check(); err != nil {
			return err
		}
	}
	for _, i := range s.instances {
		if err := i.Check(); err != nil {
			return err
		}
	}
	return nil
}

// await asks until nothing is waited for any more. It gives up when a process has ended by itself.
func (s *scenario) await(ctx context.Context, ask func(context.Context) (waiting string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	last := "nothing, no answer came"
	for {
		if err := s.check(); err != nil {
			return err
		}
		waiting, err := ask(ctx)
		switch {
		case err == nil && waiting == "":
			return nil
		case err != nil && ctx.Err() == nil:
			return err
		case waiting != "":
			last = waiting
		}
		if !pause(ctx, stepPoll) {
			return fmt.Errorf("gave up waiting: %w (last seen: %s)", ctx.Err(), last)
		}
	}
}

// pause waits for d; it returns false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
