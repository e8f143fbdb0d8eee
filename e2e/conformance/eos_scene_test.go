package conformance

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/e2e/cluster"
)

const (
	// eosSession is the session timeout of the instances.
	eosSession = 10 * time.Second
	// eosVerifyTimeout is far beyond what a good run takes. The verifier itself waits ten minutes
	// for a transaction that hangs.
	eosVerifyTimeout = 5 * time.Minute
	// eosGeneratorGrace is for the records in flight and for the generator's own look at the end
	// offsets.
	eosGeneratorGrace = time.Minute
)

// eosScene is one run of StreamsEosTest.
type eosScene struct {
	*systemTest
	variant    eosVariant
	properties string
	records    int64 // as the generator says, once it is stopped
}

// newEosScene makes instances of the names, which are down, of an application with the mistake, ""
// for none.
func newEosScene(t *testing.T, c *cluster.Cluster, v eosVariant, mistake string, names ...string) *eosScene {
	t.Helper()
	settings := judgedSettings{Application: eosApplication, Session: eosSession, Variant: v.name, Broken: mistake}
	return &eosScene{systemTest: newSystemTest(t, c, settings, v.inputs, names...), variant: v, properties: clientProperties(t, c)}
}

// command is a command of StreamsEosTest.
func (s *eosScene) command(ctx context.Context, name string) *exec.Cmd {
	return javaCommand(ctx, s.t, eosLibrary, "org.apache.kafka.streams.tests.StreamsEosTest", s.properties, name)
}

// run does everything up to the orderly stop of all instances.
func (s *eosScene) run(ctx context.Context, p eosPlan) error {
	s.createTopics(append([]string{generatedTopic}, s.variant.outputs...)...)
	s.generator = launchJava(s.t, s.command(ctx, "run")) // about 200 records a second
	if err := s.begin(ctx, s.instances...); err != nil {
		return err
	}
	if err := s.rotate(ctx, p); err != nil {
		return err
	}
	if err := s.stopGenerator(ctx); err != nil {
		return err
	}
	if err := s.drain(ctx); err != nil {
		return fmt.Errorf("after the generator has stopped: %w", err)
	}
	return s.stopAll(ctx)
}

// rotate carries out the plan, one instance after the other.
func (s *eosScene) rotate(ctx context.Context, p eosPlan) error {
	turn := 0
	for _, step := range []struct {
		name  string
		times int
		do    func(ctx context.Context, i *judged) error
	}{
		{"kill", p.kills, s.killAndTakeOver},
		{"kill and restart", p.restarts, s.killAndRestart},
		{"stop", p.stops, s.leaveAndReturn},
	} {
		for range step.times {
			i := s.instances[turn%len(s.instances)]
			turn++
			if err := step.do(ctx, i); err != nil {
				return fmt.Errorf("%s %s: %w", step.name, i.name(), err)
			}
		}
	}
	return nil
}

var errUncounted = errors.New("the generator does not say how many records it has written")

var eosClosedLine = regexp.MustCompile(`(?m)^Producer closed: (\d+) records produced$`)

// stopGenerator ends the generator in order and checks that the topic has what it says to have
// written.
func (s *eosScene) stopGenerator(ctx context.Context) error {
	if err := s.generator.Terminate(eosGeneratorGrace); err != nil {
		return fmt.Errorf("stop the generator: %w", err)
	}
	out, err := s.generator.output()
	if err != nil {
		return err
	}
	m := eosClosedLine.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("%w; it has printed:\n%s", errors.Join(errUncounted, s.generator.Err()), out)
	}
	s.generator = nil
	if s.records, err = strconv.ParseInt(m[1], 10, 64); err != nil {
		return err
	}
	ends, err := s.cluster.EndOffsets(ctx, generatedTopic)
	if err != nil {
		return err
	}
	n := int64(0)
	for _, end := range ends {
		n += end
	}
	if n != s.records {
		return fmt.Errorf("the generator has written %d records, and %d are in %s", s.records, n, generatedTopic)
	}
	return nil
}

// drain waits until everything is processed and committed. The verifier looks at no input beyond
// the committed offsets: an application that left the end of it would pass.
func (s *eosScene) drain(ctx context.Context) error {
	for _, topic := range s.inputs {
		targets, err := s.committedEnds(ctx, topic)
		if err != nil {
			return err
		}
		if err := s.awaitCommits(ctx, map[string][]int64{topic: targets}); err != nil {
			return err
		}
	}
	return nil
}

// committedEnds returns the offsets behind the last committed record of each partition. They can be
// below the end offsets, which count transaction markers.
func (s *eosScene) committedEnds(ctx context.Context, topic string) ([]int64, error) {
	records, err := s.cluster.ReadAll(ctx, topic)
	if err != nil {
		return nil, err
	}
	ends := make([]int64, len(records))
	for p, of := range records {
		if len(of) > 0 {
			ends[p] = of[len(of)-1].Offset + 1
		}
	}
	return ends, nil
}

// verify runs the verifier and returns everything that it prints.
func (s *eosScene) verify(ctx context.Context) (output string, err error) {
	return launchJava(s.t, s.command(ctx, s.variant.verifier)).wait(ctx, eosVerifyTimeout)
}

// count checks that every output topic has as many records as there were inputs: the verifier does
// not miss records at the end of echo and repartition.
func (s *eosScene) count(ctx context.Context) error {
	for _, topic := range s.variant.outputs {
		records, err := s.cluster.ReadAll(ctx, topic)
		if err != nil {
			return err
		}
		n := int64(0)
		for _, of := range records {
			n += int64(len(of))
		}
		if n != s.records {
			return fmt.Errorf("%s has %d records for %d inputs", topic, n, s.records)
		}
	}
	return nil
}

// repeat runs the instances over the input of the run before, of which nothing else is left.
func (s *eosScene) repeat(ctx context.Context) error {
	if err := s.deleteRun(ctx, generatedTopic); err != nil {
		return err
	}
	s.createTopics(s.variant.outputs...)
	for _, i := range s.instances {
		i.start()
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	return s.stopAll(ctx)
}

// deleteRun deletes the group and all topics of a run, except the topic to keep and Kafka's own.
func (s *eosScene) deleteRun(ctx context.Context, keep string) error {
	if _, err := s.cluster.Admin().DeleteGroup(ctx, eosApplication); err != nil {
		return fmt.Errorf("delete group %s: %w", eosApplication, err)
	}
	// The broker still knows a deleted topic for a moment. A new topic of that name would disappear
	// too.
	return s.await(ctx, func(ctx context.Context) (pending string, err error) {
		topics, err := s.cluster.Admin().ListTopics(ctx)
		if err != nil {
			return "", err
		}
		for _, topic := range topics.Names() {
			if topic == keep || strings.HasPrefix(topic, "__") {
				continue
			}
			pending = "topic " + topic + " is still there"
			_, err := s.cluster.Admin().DeleteTopic(ctx, topic)
			if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
				return "", fmt.Errorf("delete topic %s: %w", topic, err)
			}
		}
		return pending, nil
	})
}
