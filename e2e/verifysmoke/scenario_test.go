//go:build unix

package verifysmoke

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/clients/process"
	"github.com/onceward/onceward/e2e/cluster"
)

const (
	application = "SmokeTest"
	input       = "data"
	partitions  = 5

	// stepTimeout bounds each wait and only decides how long a failure takes to show.
	stepTimeout = 3 * time.Minute
	stepPoll    = 100 * time.Millisecond
)

// topics are all that Kafka's test has; fk is written by its generator alone.
var topics = []string{
	input, "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed", "cnt", "avg", "tagg", "fk",
}

// scenario is one application on a broker of its own, because Kafka's test gives the names of the topics.
type scenario struct {
	t         *testing.T
	cluster   *cluster.Cluster
	judge     *judge
	instances []*process.Instance
	started   time.Time
	kills     struct{ all, open int }
	joins     int
	leaves    int
}

// newScenario starts a broker with all topics, and makes the instances, which are down.
func newScenario(t *testing.T, names []string, args ...string) *scenario {
	t.Helper()
	s := &scenario{t: t, cluster: cluster.Own(t, cluster.KindKafka)}
	binary := build(t)
	for _, topic := range topics {
		if err := s.cluster.CreateTopic(t.Context(), topic, partitions, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		s.instances = append(s.instances, process.New(t, binary, name, s.cluster.Brokers(), args...))
	}
	return s
}

func (s *scenario) logf(format string, args ...any) {
	s.t.Helper()
	s.t.Logf("%6.1f s: "+format, append([]any{time.Since(s.started).Seconds()}, args...)...)
}

// run starts the first instance and the generator, and then lets instances join, die and leave for some rounds.
func (s *scenario) run(ctx context.Context, l load, rounds int) error {
	s.started = time.Now()
	if err := s.join(ctx, s.instances[0]); err != nil {
		return err
	}
	s.judge = launchJudge(s.t, s.cluster.Brokers(), l)
	if err := s.generating(ctx); err != nil {
		return err
	}
	for round := range rounds {
		a, b, c := s.instances[round%3], s.instances[(round+1)%3], s.instances[(round+2)%3]
		for _, step := range []struct {
			name string
			do   func(context.Context, *process.Instance) error
			to   *process.Instance
		}{
			{"join", s.join, b},
			{"kill and take over", s.killAndTakeOver, a},
			{"join", s.join, c},
			{"leave", s.leave, b},
			{"kill and restart", s.killAndRestart, c},
		} {
			if step.to.Up() {
				if step.name == "join" {
					continue
				}
			} else if step.name != "join" { // it has left in the round before
				if err := s.join(ctx, step.to); err != nil {
					return fmt.Errorf("join %s: %w", step.to.Name(), err)
				}
			}
			if err := step.do(ctx, step.to); err != nil {
				return fmt.Errorf("%s %s: %w", step.name, step.to.Name(), err)
			}
		}
		s.logf("round %d is over; the verifier has ended: %t", round+1, s.judge.ended())
	}
	return nil
}

// join starts an instance and waits until all that are up work.
func (s *scenario) join(ctx context.Context, i *process.Instance) error {
	if err := i.Start(); err != nil {
		return err
	}
	s.joins++
	if err := s.settled(ctx); err != nil {
		return err
	}
	s.logf("%s has joined", i.Name())
	return nil
}

// killAndTakeOver kills an instance, and starts it again once the others have its tasks.
func (s *scenario) killAndTakeOver(ctx context.Context, i *process.Instance) error {
	if err := s.kill(ctx, i); err != nil {
		return err
	}
	if err := s.settled(ctx); err != nil {
		return err
	}
	return s.join(ctx, i)
}

// killAndRestart kills an instance, and starts it again at once.
func (s *scenario) killAndRestart(ctx context.Context, i *process.Instance) error {
	if err := s.kill(ctx, i); err != nil {
		return err
	}
	return s.join(ctx, i)
}

func (s *scenario) kill(ctx context.Context, i *process.Instance) error {
	if err := i.Check(); err != nil {
		return err
	}
	if err := i.Kill(); err != nil {
		return err
	}
	open, err := s.cluster.OpenTransactions(ctx, application+"~"+i.Name()+"~")
	if err != nil {
		return err
	}
	s.kills.all++
	s.kills.open += len(open)
	s.logf("%s is killed with %d open transactions", i.Name(), len(open))
	return nil
}

// leave stops an instance in order, and waits until the others have its tasks.
func (s *scenario) leave(ctx context.Context, i *process.Instance) error {
	stopping, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := i.Terminate(stopping); err != nil {
		return err
	}
	s.leaves++
	if err := s.settled(ctx); err != nil {
		return err
	}
	s.logf("%s has left", i.Name())
	return nil
}

// stop ends all instances that are up in order.
func (s *scenario) stop(ctx context.Context) error {
	for _, i := range s.instances {
		if !i.Up() {
			continue
		}
		if err := i.Check(); err != nil {
			return err
		}
		stopping, cancel := context.WithTimeout(ctx, stepTimeout)
		err := i.Terminate(stopping)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// generating waits until the generator writes: a takeover is none if there is nothing to go on with.
func (s *scenario) generating(ctx context.Context) error {
	return s.await(ctx, func(ctx context.Context) (waiting string, err error) {
		ends, err := s.cluster.EndOffsets(ctx, input)
		if err != nil {
			return "", err
		}
		if s.judge.ended() {
			return "", errors.New("the generator has ended by itself")
		}
		if slices.Max(ends) == 0 {
			return "nothing is generated", nil
		}
		return "", nil
	})
}

// settled waits until every instance that is up says that it is running, and every input that there was at the call is committed.
func (s *scenario) settled(ctx context.Context) error {
	ends, err := s.cluster.EndOffsets(ctx, input)
	if err != nil {
		return err
	}
	return s.await(ctx, func(ctx context.Context) (string, error) { return s.waitsFor(ctx, ends) })
}

// await asks until nothing is waited for any more.
func (s *scenario) await(ctx context.Context, ask func(context.Context) (waiting string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for {
		waiting, err := ask(ctx)
		if err != nil || waiting == "" {
			return err
		}
		timer := time.NewTimer(stepPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("gave up waiting: %w (last seen: %s)", ctx.Err(), waiting)
		case <-timer.C:
		}
	}
}

func (s *scenario) waitsFor(ctx context.Context, ends []int64) (waiting string, err error) {
	for _, i := range s.instances {
		if err := i.Check(); err != nil {
			return "", err
		}
		if !i.Up() {
			continue
		}
		if state, _ := i.Last(); state != "RUNNING" {
			return fmt.Sprintf("%s is %s", i.Name(), state), nil
		}
	}
	committed, err := s.cluster.CommittedOffsets(ctx, application, input)
	if err != nil {
		return "", err
	}
	for p, end := range ends {
		if at := committed[input][p].Offset; end > 0 && at < end {
			return fmt.Sprintf("%s-%d is committed up to %d of %d", input, p, at, end), nil
		}
	}
	return "", nil
}
