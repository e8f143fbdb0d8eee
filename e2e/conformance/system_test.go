package conformance

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
)

const (
	// systemPartitions is how many partitions all topics of a system test have.
	systemPartitions = 5
	// generatedTopic is what the generators write to.
	generatedTopic = "data"

	// stepTimeout bounds each wait and only decides how long a failure takes to show. A takeover
	// takes the session timeout; a transaction of the dead instance ends at about the same time.
	stepTimeout = 3 * time.Minute
	stepPoll    = 50 * time.Millisecond
	// lookTimeout bounds the search for an open transaction.
	lookTimeout = time.Minute
	lookPoll    = 3 * time.Millisecond
)

// systemTest is the part of a system test of Kafka's that is ours: the application between
// generator and verifier. Its broker has nothing else, because Kafka's test gives the names of the
// topics and of the group.
type systemTest struct {
	t           *testing.T
	cluster     *cluster.Cluster
	application string
	inputs      []string // topics that the application reads
	instances   []*judged
	// generator writes until it is stopped; nil if no such generator runs.
	generator *javaProcess
	began     time.Time
	kills     struct{ all, met, open int }
}

// newSystemTest makes instances of the names, which are down.
func newSystemTest(t *testing.T, c *cluster.Cluster, settings judgedSettings, inputs []string, names ...string) *systemTest {
	t.Helper()
	s := &systemTest{t: t, cluster: c, application: settings.Application, inputs: inputs, began: time.Now()}
	settings.Brokers = c.Brokers()
	for _, name := range names {
		settings.Instance = name
		s.instances = append(s.instances, newJudged(t, settings))
	}
	return s
}

func (s *systemTest) createTopics(topics ...string) {
	s.t.Helper()
	s.cluster.CreateTopics(s.t, systemPartitions, topics...)
}

func (s *systemTest) logf(format string, args ...any) {
	s.t.Helper()
	s.t.Logf("%6.1f s: "+format, append([]any{time.Since(s.began).Seconds()}, args...)...)
}

// begin starts the instances and waits until all that are up work.
func (s *systemTest) begin(ctx context.Context, instances ...*judged) error {
	began := time.Now()
	for _, i := range instances {
		i.start()
	}
	if err := s.settled(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	for _, i := range instances {
		s.logf("%s works after %.1f s", i.name(), time.Since(began).Seconds())
	}
	return nil
}

// killAndTakeOver kills the instance, waits until the others have taken over its tasks, and starts
// it again.
func (s *systemTest) killAndTakeOver(ctx context.Context, i *judged) error {
	if err := s.kill(ctx, i); err != nil {
		return err
	}
	if err := s.takenOver(ctx, i); err != nil {
		return err
	}
	return s.begin(ctx, i)
}

// killAndRestart kills the instance and starts it before its session ends, so that it gets its
// tasks back.
func (s *systemTest) killAndRestart(ctx context.Context, i *judged) error {
	if err := s.kill(ctx, i); err != nil {
		return err
	}
	return s.begin(ctx, i)
}

// leave ends the instance in order and waits until the others have taken over its tasks.
func (s *systemTest) leave(ctx context.Context, i *judged) error {
	if err := s.stop(ctx, i); err != nil {
		return err
	}
	return s.takenOver(ctx, i)
}

// leaveAndReturn is leave, after which the instance starts again.
func (s *systemTest) leaveAndReturn(ctx context.Context, i *judged) error {
	if err := s.leave(ctx, i); err != nil {
		return err
	}
	return s.begin(ctx, i)
}

// takenOver waits until the instances that are up have the tasks of one that is down.
func (s *systemTest) takenOver(ctx context.Context, from *judged) error {
	down := time.Now()
	if err := s.settled(ctx); err != nil {
		return fmt.Errorf("takeover: %w", err)
	}
	s.logf("the others have taken over from %s after %.1f s", from.name(), time.Since(down).Seconds())
	return nil
}

// kill ends the instance with SIGKILL. As long as there is certainly something to process, it does
// so while the broker lists an open transaction of the instance.
func (s *systemTest) kill(ctx context.Context, i *judged) error {
	if _, _, err := i.status(ctx); err != nil {
		return err
	}
	if s.generator != nil {
		if err := s.freezeInTransaction(ctx, i); err != nil {
			return err
		}
	}
	if err := i.kill(); err != nil {
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
	s.logf("%s is killed with %d open transactions", i.name(), open)
	return nil
}

// freezeInTransaction freezes the instance with a transaction open. It freezes it for each look:
// transactions last a few milliseconds, and are over when the answer of the broker is here.
func (s *systemTest) freezeInTransaction(ctx context.Context, i *judged) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for looks := 1; ; looks++ {
		i.process.Tell(syscall.SIGSTOP)
		open, err := s.openTransactions(ctx, i)
		if err == nil && open > 0 {
			open, err = s.openTransactions(ctx, i) // again, since the request that ends it may have been on its way
		}
		if err == nil && open > 0 {
			return nil
		}
		i.process.Tell(syscall.SIGCONT)
		if err != nil {
			return err
		}
		if !pause(ctx, lookPoll) {
			return fmt.Errorf("none of %d looks found an open transaction of %s", looks, i.name())
		}
		if err := i.process.Alive(); err != nil {
			return fmt.Errorf("%s: %w", i.name(), err)
		}
	}
}

// stop ends the instance in order, after which it must have no transaction open.
func (s *systemTest) stop(ctx context.Context, i *judged) error {
	if _, _, err := i.status(ctx); err != nil {
		return err
	}
	i.stop()
	open, err := s.openTransactions(ctx, i)
	if err != nil {
		return err
	}
	if open > 0 {
		return fmt.Errorf("%s has stopped in order and left %d transactions open", i.name(), open)
	}
	s.logf("%s has stopped in order", i.name())
	return nil
}

// stopAll ends all instances that are up in order.
func (s *systemTest) stopAll(ctx context.Context) error {
	for _, i := range s.instances {
		if !i.up() {
			continue
		}
		if err := s.stop(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// openTransactions returns how many of the instance's transactions are open.
func (s *systemTest) openTransactions(ctx context.Context, i *judged) (int, error) {
	ids, err := s.cluster.OpenTransactions(ctx, s.application+"~"+i.name()+"~")
	return len(ids), err
}

// settled waits until every input that there was at the call is committed in every partition,
// whichever instance had the partition before, and until all tasks of every instance that is up
// run. As long as there is certainly something to process, each instance has to process more, and
// each partition to have a commit.
func (s *systemTest) settled(ctx context.Context) error {
	before := map[*judged]int64{}
	least := int64(0)
	if s.generator != nil {
		least = 1
		for _, i := range s.instances {
			if !i.up() {
				continue
			}
			status, _, err := i.status(ctx)
			if err != nil {
				return err
			}
			before[i] = status.Totals.Records
		}
	}
	targets := map[string][]int64{}
	for _, topic := range s.inputs {
		ends, err := s.cluster.EndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		for p := range ends {
			ends[p] = max(ends[p], least)
		}
		targets[topic] = ends
	}
	if err := s.awaitCommits(ctx, targets); err != nil {
		return err
	}
	return s.await(ctx, func(ctx context.Context) (pending string, err error) {
		for _, i := range s.instances {
			if !i.up() {
				continue
			}
			status, pending, err := i.status(ctx)
			if err != nil {
				return "", err
			}
			if n, had := before[i]; had && pending == "" && status.Totals.Records <= n {
				pending = fmt.Sprintf("it has processed %d records, %d of them before", status.Totals.Records, n)
			}
			if pending != "" {
				return i.name() + ": " + pending, nil
			}
		}
		return "", nil
	})
}

// awaitCommits waits until the group has committed at least the offsets.
func (s *systemTest) awaitCommits(ctx context.Context, targets map[string][]int64) error {
	var topics []string
	for topic := range targets {
		topics = append(topics, topic)
	}
	return s.await(ctx, func(ctx context.Context) (pending string, err error) {
		commits, err := s.cluster.CommittedOffsets(ctx, s.application, topics...)
		if err != nil {
			return "", err
		}
		for topic, offsets := range targets {
			for p, target := range offsets {
				if at := commits[topic][p].Offset; max(at, 0) < target { // -1 is none
					return fmt.Sprintf("%s-%d is committed up to %d of %d", topic, p, at, target), nil
				}
			}
		}
		return "", nil
	})
}

// check returns an error if a process has ended by itself, or a task has stopped for good.
func (s *systemTest) check(ctx context.Context) error {
	if s.generator != nil {
		if err := s.generator.check(); err != nil {
			return fmt.Errorf("the generator: %w", err)
		}
	}
	for _, i := range s.instances {
		if !i.up() {
			continue
		}
		if _, _, err := i.status(ctx); err != nil {
			return err
		}
	}
	return nil
}

// await asks until nothing is pending any more. It gives up when a process has ended by itself.
func (s *systemTest) await(ctx context.Context, ask func(context.Context) (pending string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	last := "nothing, no answer came"
	for {
		if err := s.check(ctx); err != nil {
			return err
		}
		pending, err := ask(ctx)
		switch {
		case err == nil && pending == "":
			return nil
		case err != nil && ctx.Err() == nil:
			return err
		case pending != "":
			last = pending
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
